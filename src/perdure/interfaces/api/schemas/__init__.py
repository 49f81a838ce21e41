"""What REST takes, one module for each noun, and the envelopes of what it sends.

The resources themselves are defined in `perdure.app.wire.resources`; the OpenAPI document is made of both. Nothing here
imports a route.
"""
