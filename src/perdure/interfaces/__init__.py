"""The surfaces of Perdure. Each turns its own language into the use cases of `perdure.app`, and nothing more."""
