"""Flows: Python functions that run as goals. May import the kernel and what minds share, never a plan."""
