"""Goals as text: timelines, lists, outputs and the commands that come next."""
