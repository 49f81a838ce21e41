"""Plans: a YAML file of steps that need each other, and the mind that runs it."""
