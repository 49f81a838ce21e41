"""The tree of commands: noun, then verb."""

from typing import Annotated

import typer

from perdure import __version__
from perdure.interfaces.cli import config, db, demo, doctor, goal, run


def build() -> typer.Typer:
    """Put all commands together."""
    app = _group("A home for AI agents that cannot lose their work.")
    app.callback()(_root)
    run.register(app)
    doctor.register(app)
    demo.register(app)
    for name, module, about in (
        ("goal", goal, "Goals: list, show, resume, replay, answer, decide, cancel."),
        ("db", db, "The database: migrate, look, verify, back up, restore."),
        ("config", config, "The settings and where each came from."),
    ):
        group = _group(about)
        module.register(group)
        app.add_typer(group, name=name)
    return app


def _group(about: str) -> typer.Typer:
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"perdure {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass
