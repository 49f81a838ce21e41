"""The interview: a pure function from a state and an answer to the next state."""
