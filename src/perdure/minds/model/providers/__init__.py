"""The providers of models: names, keys, prices, and a client that retries, waits and falls back.

May import what `minds` may. Only `requests/` imports pydantic-ai and the packages of vendors.
"""
