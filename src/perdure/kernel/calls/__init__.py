"""The calls of a running goal: started, cancelled and collected; the decisions of people about them."""
