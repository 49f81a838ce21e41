"""Models over HTTP: listed page by page, and tried."""

import pytest

from perdure.errors import Invalid, Unavailable
from perdure.testing.model_server import ModelServer, ScriptedAnswer
from perdure.testing.model_server.script import Order
from tests.interfaces.api.serving import Served

pytestmark = pytest.mark.usefixtures("model_server")


@pytest.fixture
def answer_order() -> Order:
    return "requests"


@pytest.fixture
def model_key() -> str | None:
    return None


async def test_models_are_listed_page_by_page(plain: Served) -> None:
    names = [model["name"] for model in await plain.client.models.list()]
    assert len(names) == 4
    assert [model["name"] for model in await plain.client.models.list(limit=1)] == names
    whole = (await plain.http.get("/models?limit=4")).json()
    assert (len(whole["data"]), whole["meta"]["next_cursor"]) == (4, None)
    assert (await plain.http.get("/models?cursor=bm9wZQ")).status_code == 422


async def test_a_model_has_the_form_that_is_described(plain: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("ready"))
    described = (await plain.http.get(f"{plain.server.url}/openapi.json")).json()["components"]["schemas"]
    for model in await plain.client.models.list():
        assert set(model) == set(described["Model"]["properties"]) == set(described["Model"]["required"])
    tried = await plain.client.models.test("openai:m")
    assert set(tried) == set(described["TestedModel"]["properties"])


async def test_a_model_is_tried_over_http(plain: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("ready"), ScriptedAnswer(status=401, message="No."))
    tried = await plain.client.models.test("openai:m")
    assert (tried["name"], tried["text"]) == ("openai:m", "ready")
    answer = await plain.http.post("/models/test", json={"name": "openai:m"})
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.json()["detail"] == "openai:m answered with status 401: No. Run `perdure model login openai`."
    with pytest.raises(Invalid, match="is not the name of a model"):
        await plain.client.models.test("m")
    with pytest.raises(Unavailable, match="No model is configured"):
        await plain.client.models.test()
