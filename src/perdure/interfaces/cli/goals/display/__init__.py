"""Goals as text: timelines, lists and next commands."""
