"""The use cases of Forge, bots and skills."""
