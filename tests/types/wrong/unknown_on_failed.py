"""An `on_failed` that does not exist."""

from perdure import Perdure


async def main(p: Perdure) -> None:
    print(await p.goals.options(on_failed="ignore").run(["true"]))  # error
