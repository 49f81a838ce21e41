"""The filters of a list of goals over HTTP and through the client."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from perdure import Invalid
from perdure.client import Client


async def test_goals_are_filtered_by_every_parameter(client: Client) -> None:
    made = await client.goals.create(command="true", key="k-1")
    async for _event in client.goals.follow(made["id"]):
        pass
    soon = datetime.now(UTC) + timedelta(hours=1)

    async def found(**filters: object) -> list[str]:
        return [goal["id"] async for goal in client.goals.each(**filters)]  # type: ignore[arg-type]

    assert [goal["key"] async for goal in client.goals.each()] == ["k-1"]
    assert await found(status=["failed", "done"], key="k-1", since="1h", until=soon, queue="server") == [made["id"]]
    for other in (
        {"status": "running"},
        {"key": "k-2"},
        {"flow": "f"},
        {"bot": "b"},
        {"tag": "t"},
        {"parent": "p"},
        {"queue": "cli"},
        {"since": soon},
    ):
        assert await found(**other) == [], other


async def test_a_bad_filter_is_refused_with_what_is_allowed(client: Client, known: httpx.AsyncClient) -> None:
    with pytest.raises(Invalid, match="a duration such as 2h"):
        [goal async for goal in client.goals.each(since="yesterday")]
    with pytest.raises(TypeError, match="unexpected keyword argument 'stauts'; expected any of status, flow"):
        [goal async for goal in client.goals.each(stauts="done")]  # type: ignore[call-arg]
    refused = await known.get("/api/v1/goals?status=stopped")
    assert (refused.status_code, "interrupted" in refused.text) == (422, True)
