"""Authentication: tokens, login codes and sessions, and the middleware that every request passes."""
