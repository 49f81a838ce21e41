"""One run of a flow: delivers outcomes, fires timers, and handles cancels and deadlines."""
