"""Goals as text: timelines, lists and the commands that come next."""
