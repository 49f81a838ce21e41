"""The first parameter of a flow is not a goal."""

from perdure import flow


@flow  # error
async def checkout(cents: int) -> str:
    return str(cents)
