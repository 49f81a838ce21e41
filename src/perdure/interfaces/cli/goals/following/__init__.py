"""Shows the events of goals, and of their children, that other processes or servers run."""
