"""Goals that other processes or servers run, as a person follows them: their events, and those of their children."""
