"""A web shop whose orders survive: FastAPI with Perdure inside, and no other process.

    cd examples && uvicorn shop_api:app --port 8080
    curl localhost:8080/orders --json '{"id": "7", "item": "lamp"}'     # prints the goal's id
    curl localhost:8080/orders/GOAL

Kill the server wherever you like and start it again: it finishes the orders that were accepted, each step once.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from perdure import Goal, GoalFailed, Perdure, PerdureError, flow

LEDGER = Path("ledger.txt").absolute()


class Order(BaseModel):
    """What a customer wants; the id names the order, so a repeated request is the same order."""

    id: str
    item: str


def note(line: str) -> None:
    """Write down what happened; the ledger stands for the bank, the warehouse and the carrier."""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


def is_noted(line: str) -> bool:
    return LEDGER.exists() and line in LEDGER.read_text(encoding="utf-8").splitlines()


def charge(order: str) -> None:
    note(f"charge {order}")


def was_charged(order: str) -> bool:
    return is_noted(f"charge {order}")


def pack(order: str) -> None:
    time.sleep(1)  # a sync step runs on a thread, so the server answers meanwhile
    note(f"pack {order}")


def was_packed(order: str) -> bool:
    return is_noted(f"pack {order}")


def ship(order: str) -> None:
    note(f"ship {order}")


def was_shipped(order: str) -> bool:
    return is_noted(f"ship {order}")


@flow
async def fulfil(goal: Goal, order: Order) -> str:
    await goal.options(check=was_charged).step(charge, order.id)
    await goal.options(check=was_packed).step(pack, order.id)
    await goal.options(check=was_shipped).step(ship, order.id)
    return f"{order.item} is on its way"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Perdure.open(app="shop", recover=True) as p:
        app.state.perdure = p
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(PerdureError)
async def show_problem(_request: Request, error: PerdureError) -> JSONResponse:
    return JSONResponse(error.problem(), status_code=error.http_status)


@app.post("/orders", status_code=202)
async def create_order(order: Order, request: Request) -> dict[str, str]:
    p: Perdure = request.app.state.perdure
    handle = await p.goals.options(key=f"order-{order.id}", tags=["order"]).start(fulfil, order)
    return {"id": handle.id}


@app.get("/orders/{goal_id}")
async def get_order(goal_id: str, request: Request) -> dict[str, Any]:
    p: Perdure = request.app.state.perdure
    handle = await p.goals.handle(goal_id)
    try:
        result = await handle.result(timeout_s=0)
    except TimeoutError:
        return {"id": handle.id, "status": await handle.status()}
    except GoalFailed as error:
        return {"id": handle.id, "status": await handle.status(), "detail": error.detail}
    return {"id": handle.id, "status": result.status, "value": result.value}
