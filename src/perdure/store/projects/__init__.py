"""Adapters of the ports of projects. May import: `perdure.projects.ports` and the rest of the store."""
