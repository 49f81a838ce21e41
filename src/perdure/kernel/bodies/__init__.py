"""The bodies of events: those of calls, and those of goals. `kernel.events` exports all of them."""
