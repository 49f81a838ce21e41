"""Authentication of requests: what a server accepts, and the middleware that every request passes."""
