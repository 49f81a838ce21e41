"""The use cases of goals: start, resume, retry, decide, fork, cancel, read and delete them."""
