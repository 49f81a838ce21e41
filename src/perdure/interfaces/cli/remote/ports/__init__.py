"""What commands need of the home that they open, or of the server that they name.

Each port has two implementations: an object of `perdure.app`, and one over `perdure.client` in the folder above. What
crosses is what the wire defines, or a view that prints the same in both cases. May import: app, and what the views of
app consist of.
"""
