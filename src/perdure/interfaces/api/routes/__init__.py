"""The routes: each turns a request into one call of a use case, and its result into a response."""
