"""`python -m perdure` is the program `perdure`."""

from perdure.interfaces.cli import main

main()
