"""Assembly: the files of a bot are made from its config, merged with hand edits, and rolled back."""
