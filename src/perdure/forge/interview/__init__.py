"""The interview: from a state and an answer to the next turn."""
