"""How a group of commands is made."""

import typer


def group(about: str) -> typer.Typer:
    """Return an empty group, which shows its help when it is called alone."""
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
