"""Decisions on open calls: which fits, and which comes too late."""

from perdure.kernel.calls.decisions import TooLate, choose, missed_deadlines, timed_out

__all__ = ["TooLate", "choose", "missed_deadlines", "timed_out"]
