"""Questions to a person at a terminal: lists and lines, plain where the terminal cannot move its cursor."""
