"""Processes that run goals: their identity and lease, the runs of goals, and the polling for goals to claim."""
