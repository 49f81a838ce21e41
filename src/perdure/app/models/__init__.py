"""The use cases of models: which are known, trying one, storing keys, and the client that goals ask.

May import what `app` may.
"""
