"""One run of a flow: outcomes are delivered, timers fired, cancels and deadlines carried out."""
