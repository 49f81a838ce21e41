"""The bodies of events, by what they are about. `kernel.events` has all of them."""
