"""Text for a terminal: escaped, fitted to its width, times and durations."""
