"""The calls of a goal while it runs: admitted, started, cancelled, collected, and what people decide about them."""
