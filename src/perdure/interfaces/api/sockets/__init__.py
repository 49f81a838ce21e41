"""The WebSocket endpoints; data is produced only as fast as the client reads."""
