"""The steps of a flow: calls of their functions, results and failures."""
