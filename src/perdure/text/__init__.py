"""Text from outside and text that is stored: what every database accepts, strict JSON, strict YAML.

It imports `errors` and nothing else of ours.
"""
