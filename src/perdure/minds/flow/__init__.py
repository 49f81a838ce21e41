"""Flows: Python functions that run as goals. May import the kernel and shared modules of minds, never `minds.plan`."""
