"""Request bodies, one module for each resource, and the envelopes of responses.

The resources themselves are defined in `perdure.app.wire.resources`; the OpenAPI document is generated from both.
Modules here must not import routes.
"""
