"""Runs goals on a terminal: flows, live view, outputs, questions in place, Ctrl-C."""
