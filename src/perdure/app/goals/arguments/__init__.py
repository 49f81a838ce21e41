"""Arguments of the use cases of goals, validated before anything is read or recorded."""
