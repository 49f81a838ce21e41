"""A goal run in front of a person: live view, questions in place, Ctrl-C."""
