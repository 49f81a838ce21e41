"""Text from outside and text that is stored: what databases accept, strict JSON and YAML, durations, timestamps.

May import: errors.
"""
