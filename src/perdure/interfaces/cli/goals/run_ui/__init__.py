"""A goal run in front of a person: its flow, live view, outputs, questions in place, Ctrl-C."""
