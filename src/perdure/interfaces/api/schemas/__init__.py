"""The forms that REST takes and sends, one module for each noun: the OpenAPI document is made of them.

A form that another module owns already (a turn, a config, the body of an event) is used by reference. Nothing here
imports a route.
"""
