"""The steps of a flow: how their functions are called, and how they end."""
