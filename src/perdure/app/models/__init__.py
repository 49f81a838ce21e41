"""The use cases of models: listing and testing them, storing keys, and the client for goals.

May import what `app` may.
"""
