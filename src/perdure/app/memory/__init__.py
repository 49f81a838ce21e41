"""The use cases of the memory."""
