"""What can be done with a recorded history: read older versions of it, replay, compare, fork and reopen it."""
