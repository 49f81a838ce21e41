"""Programs that measure others; each runs in an environment of its own. May import: nothing but the step."""
