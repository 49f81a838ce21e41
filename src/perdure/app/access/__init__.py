"""Access to a home: its token, one-time login codes and login sessions. Imports no interface."""
