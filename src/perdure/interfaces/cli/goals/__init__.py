"""The commands for goals: run them, look at them, decide for them. May import app, kernel, minds and its own folder."""
