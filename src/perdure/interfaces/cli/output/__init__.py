"""Text for a terminal: made harmless, cut to its width, times and durations."""
