"""Plans: a YAML file of steps with dependencies, and the mind that runs it."""
