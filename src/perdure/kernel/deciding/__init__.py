"""Decisions of a mind: how it is asked, which proposals are admitted, and guards against loops."""
