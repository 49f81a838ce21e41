"""Text from outside and text that is stored: what every database accepts, strict JSON, strict YAML, durations, timestamps.

May import: errors.
"""
