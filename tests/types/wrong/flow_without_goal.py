"""A flow takes no goal."""

from perdure import flow


@flow  # error
async def checkout() -> str:
    return "done"
