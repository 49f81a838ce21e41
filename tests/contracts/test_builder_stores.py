"""The contracts of `BuilderDraftStore`, `BuilderMemoryStore` and `BotStore`, on both databases."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from perdure import Conflict, Damaged, DatabaseClient, Invalid, NotFound, failpoints
from perdure.forge.ports import (
    BotPurpose,
    BotStore,
    BotVersion,
    BuilderDraft,
    BuilderDraftStore,
    BuilderMemoryEntry,
    BuilderMemoryStore,
    BuilderMode,
    BuilderPhase,
)
from perdure.store.builder.bots import SqlBotStore
from perdure.store.builder.choices import SqlBuilderMemoryStore
from perdure.store.builder.drafts import SqlBuilderDraftStore
from perdure.store.transaction import Transaction

NOT_TEXTS = ("nul \0", "lone \ud800")
ODD_TEXTS = ("", "ä 中 🤖", "line\nbreak\ttab", "'; DROP TABLE bots; --", "%s :name ?", "x" * 100_000)


@dataclass
class Stores:
    """The three stores of one database, and a clock that a test sets."""

    client: DatabaseClient
    drafts: BuilderDraftStore
    memory: BuilderMemoryStore
    bots: BotStore

    @classmethod
    def of(cls, client: DatabaseClient, moments: Iterator[int]) -> "Stores":
        def now_us() -> int:
            return next(moments)

        return cls(
            client,
            SqlBuilderDraftStore(client, now_us=now_us),
            SqlBuilderMemoryStore(client),
            SqlBotStore(client, now_us=now_us),
        )


@pytest.fixture
async def stores(migrated_url: str) -> AsyncIterator[Stores]:
    async with await DatabaseClient.create(migrated_url, debug=True) as client:
        await client.transaction(_empty)
        yield Stores.of(client, count(1_000))


def _empty(tx: Transaction) -> None:
    for table in ("bots", "builder_drafts", "builder_memory"):
        tx.execute(f"DELETE FROM {table}")


def draft(session_id: str = "s", **changes: Any) -> BuilderDraft:
    made = BuilderDraft(
        session_id=session_id,
        state_json='{"kept": "as it is"}',
        initial_description="a timer",
        phase=BuilderPhase.BASICS,
        mode=BuilderMode.BOT,
        question_count=0,
    )
    return replace(made, **changes)


def entry(id_: str, created_at_us: int = 1, **changes: Any) -> BuilderMemoryEntry:
    made = BuilderMemoryEntry(
        id=id_,
        purpose_category="coding",
        initial_description="a coding bot",
        chosen_tone="formal",
        chosen_model="ollama:llama3.2",
        chosen_skills=("code-review",),
        bot_slug="ada",
        created_at_us=created_at_us,
    )
    return replace(made, **changes)


def version(slug: str = "ada", number: int = 1, **changes: Any) -> BotVersion:
    made = BotVersion(
        bot_id=f"id-{slug}",
        slug=slug,
        name=slug.capitalize(),
        category="coding",
        number=number,
        state="pending",
        origin="assemble" if number == 1 else "reconfigure",
        files={"SOUL.md": f"version {number}\n", "skills/x/SKILL.md": "ä\n"},
        sha256={"SOUL.md": "0" * 64},
        config={"name": slug, "nested": {"temperature": 0.5, "tags": []}},
        conversation=[{"question": "?", "answer": "!"}],
        provenance={"SOUL.md": [{"line": 1, "end": 1, "source": "answer", "exchange": 0}]},
        hand_edits=[] if number == 1 else ["SOUL.md", "skills/x/SKILL.md"],
    )
    return replace(made, **changes)


async def test_save_load_roundtrip(stores: Stores) -> None:
    asked = draft(phase=BuilderPhase.SKILLS, mode=BuilderMode.RECONFIGURE, question_count=4)
    saved = await stores.drafts.save_draft(asked, 0)
    assert saved == replace(asked, revision=1, created_at_us=1_000, updated_at_us=1_000)
    assert await stores.drafts.load_draft("s") == saved


@pytest.mark.parametrize("text", ODD_TEXTS)
async def test_any_text_comes_back_as_it_was(stores: Stores, text: str) -> None:
    saved = await stores.drafts.save_draft(draft(state_json=text, initial_description=text), 0)
    found = await stores.drafts.load_draft("s")
    assert (found.state_json, found.initial_description) == (text, text)
    assert found == saved


async def test_a_revision_rises_by_one_and_the_creation_never_changes(stores: Stores) -> None:
    saved = await stores.drafts.save_draft(draft(), 0)
    for revision in (2, 3, 4):
        changed = replace(saved, state_json=f"{revision}", created_at_us=7, revision=99)
        saved = await stores.drafts.save_draft(changed, revision - 1)
        assert (saved.revision, saved.created_at_us, saved.state_json) == (revision, 1_000, f"{revision}")
        assert saved.updated_at_us > saved.created_at_us
        assert await stores.drafts.load_draft("s") == saved


@pytest.mark.parametrize("expected", [0, 1, 3])
async def test_a_save_over_another_revision_is_a_conflict_and_changes_nothing(stores: Stores, expected: int) -> None:
    await stores.drafts.save_draft(draft(), 0)
    now = await stores.drafts.save_draft(draft(state_json="newer"), 1)
    with pytest.raises(Conflict, match="draft s was changed"):
        await stores.drafts.save_draft(draft(state_json="stale"), expected)
    assert await stores.drafts.load_draft("s") == now


async def test_a_save_over_exactly_one_draft_is_a_conflict_when_there_is_another(stores: Stores) -> None:
    saved = await stores.drafts.save_draft(draft(), 0)
    others: list[dict[str, Any]] = [
        {"created_at_us": saved.created_at_us - 1},
        {"schema_version": 2},
        {"phase": BuilderPhase.REVIEW},
        {"mode": BuilderMode.SKILL},
        {"state_json": "{}"},
    ]
    for other in others:
        with pytest.raises(Conflict):
            await stores.drafts.save_draft(draft(state_json="new"), 1, over=replace(saved, **other))
        assert await stores.drafts.load_draft(saved.session_id) == saved
    assert (await stores.drafts.save_draft(draft(state_json="new"), 1, over=saved)).revision == 2


async def test_a_draft_that_was_deleted_is_not_made_again_by_a_save(stores: Stores) -> None:
    await stores.drafts.save_draft(draft(), 0)
    await stores.drafts.delete_draft("s")
    with pytest.raises(Conflict):
        await stores.drafts.save_draft(draft(), 1)
    assert await stores.drafts.list_drafts() == []


@pytest.mark.parametrize("revision", [0, 1])
async def test_of_many_saves_at_once_exactly_one_wins(stores: Stores, migrated_url: str, revision: int) -> None:
    if revision:
        await stores.drafts.save_draft(draft(), 0)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await DatabaseClient.create(migrated_url)) for _ in range(4)]
        rivals = [SqlBuilderDraftStore(client) for client in clients]
        results = await asyncio.gather(
            *(rival.save_draft(draft(state_json=f"{n}"), revision) for n, rival in enumerate(rivals * 3)),
            return_exceptions=True,
        )
    [winner] = [result for result in results if isinstance(result, BuilderDraft)]
    assert sum(isinstance(result, Conflict) for result in results) == len(results) - 1
    found = await stores.drafts.load_draft("s")
    assert (found.revision, found.state_json) == (revision + 1, winner.state_json)


async def test_list_drafts_returns_summaries(stores: Stores) -> None:
    for name in ("a", "b", "c"):
        await stores.drafts.save_draft(draft(name, initial_description=f"wish {name}"), 0)
    await stores.drafts.save_draft(draft("a", phase=BuilderPhase.MODEL, initial_description="wish a"), 1)
    found = await stores.drafts.list_drafts()
    assert [(each.session_id, each.initial_description, each.revision) for each in found] == [
        ("a", "wish a", 2),
        ("c", "wish c", 1),
        ("b", "wish b", 1),
    ]
    assert (found[0].phase, found[0].mode, found[0].updated_at_us) == (BuilderPhase.MODEL, BuilderMode.BOT, 1_003)


async def test_drafts_are_paged_without_gap_or_repetition_also_when_moments_are_equal(stores: Stores) -> None:
    at_once = SqlBuilderDraftStore(stores.client, now_us=lambda: 5)
    names = [f"{number:02}" for number in range(25)]
    for name in names:
        await at_once.save_draft(draft(name), 0)
    seen: list[str] = []
    before = None
    while page := await at_once.list_drafts(limit=10, before=before):
        assert len(page) <= 10
        seen += [each.session_id for each in page]
        before = page[-1].place
        await at_once.delete_draft(seen[-1])
    assert seen == names[::-1]


async def test_drafts_are_found_by_the_beginning_of_their_id_letter_by_letter(stores: Stores) -> None:
    for name in ("01-a", "01-b", "01-bb", "010", "01B", "0%", "1"):
        await stores.drafts.save_draft(draft(name, initial_description=f"wish {name}"), 0)

    async def found(prefix: str, limit: int = 50) -> list[str]:
        return [each.session_id for each in await stores.drafts.find_drafts(prefix, limit=limit)]

    assert sorted(await found("01-b")) == ["01-b", "01-bb"]
    assert await found("01b") == []
    assert await found("0%") == ["0%"]
    assert await found("0_") == []
    assert await found("01-bb-and-more") == []
    assert len(await found("", limit=3)) == 3
    (one,) = await stores.drafts.find_drafts("1")
    assert (one.initial_description, one.phase, one.revision) == ("wish 1", BuilderPhase.BASICS, 1)


async def test_of_many_drafts_that_begin_alike_the_last_ids_are_found_first(stores: Stores) -> None:
    for number in range(5):
        await stores.drafts.save_draft(draft(f"0{number}"), 0)
    assert [each.session_id for each in await stores.drafts.find_drafts("0", limit=2)] == ["04", "03"]


async def test_a_page_begins_after_a_place_whatever_has_become_of_its_draft(stores: Stores) -> None:
    for name in ("a", "b", "c"):
        await stores.drafts.save_draft(draft(name), 0)
    place = (await stores.drafts.list_drafts(limit=2))[-1].place
    await stores.drafts.save_draft(draft("b"), 1)
    assert [each.session_id for each in await stores.drafts.list_drafts(before=place)] == ["a"]
    await stores.drafts.delete_draft("b")
    assert [each.session_id for each in await stores.drafts.list_drafts(before=place)] == ["a"]
    for wrong in NOT_TEXTS:
        with pytest.raises(Invalid):
            await stores.drafts.list_drafts(before=(1, wrong))


async def test_a_draft_is_deleted_only_at_the_revision_that_is_expected(stores: Stores) -> None:
    await stores.drafts.save_draft(draft("a"), 0)
    for wrong in (0, 2, -1):
        with pytest.raises(Conflict, match="revision 1"):
            await stores.drafts.delete_draft("a", wrong)
    assert len(await stores.drafts.list_drafts()) == 1
    await stores.drafts.delete_draft("a", 1)
    with pytest.raises(NotFound):
        await stores.drafts.delete_draft("a", 1)


@pytest.mark.parametrize("limit", [0, -1, 2**40])
async def test_a_limit_that_is_invalid_is_refused(stores: Stores, limit: int) -> None:
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: stores.drafts.list_drafts(limit=limit),
        lambda: stores.drafts.find_drafts("s", limit=limit),
        lambda: stores.memory.recall_recent(limit),
        lambda: stores.memory.recall_by_category("coding", limit),
        lambda: stores.bots.list_bots(limit=limit),
    ]
    for ask in asked:
        with pytest.raises(Invalid, match="limit"):
            await ask()


async def test_a_list_asks_for_no_state(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    await stores.drafts.save_draft(draft("a", state_json="x" * 1_000_000), 0)
    await stores.drafts.save_draft(draft("b"), 0)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="perdure.store.sql"):
        assert len(await stores.drafts.list_drafts(before=(2**60, "b"))) == 2
        assert len(await stores.drafts.find_drafts("a")) == 1
    asked = " ".join(record.getMessage() for record in caplog.records)
    assert "initial_description" in asked
    assert "state_json" not in asked
    assert "*" not in asked


async def test_a_state_that_cannot_be_read_hides_no_other_draft(stores: Stores, backend: str) -> None:
    for name in ("good", "bad"):
        await stores.drafts.save_draft(draft(name), 0)
    broken = "CAST(x'ff00fe' AS TEXT)" if backend == "sqlite" else "'{broken'"
    await stores.client.transaction(
        lambda tx: tx.execute(f"UPDATE builder_drafts SET state_json = {broken} WHERE session_id = 'bad'").rowcount
    )
    assert {each.session_id for each in await stores.drafts.list_drafts()} == {"good", "bad"}
    assert (await stores.drafts.load_draft("good")).session_id == "good"
    if backend == "sqlite":
        with pytest.raises(Damaged):
            await stores.drafts.load_draft("bad")
    else:
        assert (await stores.drafts.load_draft("bad")).state_json == "{broken"


async def test_delete_draft_removes_it(stores: Stores) -> None:
    await stores.drafts.save_draft(draft("a"), 0)
    await stores.drafts.save_draft(draft("b"), 0)
    await stores.drafts.delete_draft("a")
    assert [each.session_id for each in await stores.drafts.list_drafts()] == ["b"]
    for ask in (stores.drafts.load_draft, stores.drafts.delete_draft):
        with pytest.raises(NotFound, match="'a'"):
            await ask("a")


@pytest.mark.parametrize("wrong", NOT_TEXTS)
async def test_what_is_no_text_is_refused_before_anything_is_stored(stores: Stores, wrong: str) -> None:
    wrongs: list[Callable[[], Awaitable[object]]] = [
        *(
            lambda name=name: stores.drafts.save_draft(draft(**{name: wrong}), 0)
            for name in ("session_id", "state_json", "initial_description")
        ),
        lambda: stores.memory.record_session(entry("e", chosen_skills=("ok", wrong))),
        lambda: stores.memory.record_session(entry("e", chosen_tone=wrong)),
        lambda: stores.bots.save_version(version(name=wrong)),
        lambda: stores.bots.save_version(version(files={"SOUL.md": wrong})),
        lambda: stores.bots.save_version(version(files={wrong: ""})),
        lambda: stores.bots.save_version(version(config={"deep": [{"in": (wrong,)}]})),
        lambda: stores.bots.save_version(version(), entry("e", initial_description=wrong)),
    ]
    for store in wrongs:
        with pytest.raises(Invalid, match="contains a (NUL character|lone surrogate)"):
            await store()
    counts = await stores.client.count_rows()
    assert {counts[name] for name in ("bots", "bot_versions", "builder_drafts", "builder_memory")} == {0}


@pytest.mark.parametrize("wrong", NOT_TEXTS)
async def test_what_is_no_text_names_nothing(stores: Stores, wrong: str) -> None:
    bots = stores.bots
    assert await stores.memory.recall_by_category(wrong) == []
    assert await stores.drafts.find_drafts(wrong) == []
    assert await bots.version_of_session(wrong) is None
    asked = (stores.drafts.load_draft, stores.drafts.delete_draft, bots.version, bots.versions, bots.delete_bot)
    for ask in asked:
        with pytest.raises(NotFound):
            await ask(wrong)
    with pytest.raises(NotFound):
        await bots.version(wrong, 1)
    with pytest.raises(NotFound):
        await bots.mark_current(wrong, 1)


async def test_recall_by_category_returns_matching(stores: Stores) -> None:
    for number, category in enumerate(["coding", "research", "coding", "Coding", "coding"]):
        await stores.memory.record_session(entry(f"{number}", number, purpose_category=category))
    assert [each.id for each in await stores.memory.recall_by_category("coding")] == ["4", "2", "0"]
    assert [each.id for each in await stores.memory.recall_by_category("coding", 2)] == ["4", "2"]
    assert await stores.memory.recall_by_category("none") == []


async def test_a_category_is_recalled_page_by_page(stores: Stores) -> None:
    for number in range(5):
        await stores.memory.record_session(entry(f"c{number}", number // 2, purpose_category="coding"))
        await stores.memory.record_session(entry(f"r{number}", number // 2, purpose_category="research"))
    first = await stores.memory.recall_by_category("coding", 2)
    rest = await stores.memory.recall_by_category("coding", 9, before=first[-1].place)
    assert [each.id for each in (*first, *rest)] == ["c4", "c3", "c2", "c1", "c0"]
    assert await stores.memory.recall_by_category("coding", 9, before=rest[-1].place) == []


async def test_recall_recent_is_ordered(stores: Stores) -> None:
    for id_, moment in (("b", 2), ("d", 3), ("a", 2), ("c", 9)):
        await stores.memory.record_session(entry(id_, moment))
    assert [each.id for each in await stores.memory.recall_recent()] == ["c", "d", "b", "a"]
    assert [each.id for each in await stores.memory.recall_recent(2)] == ["c", "d"]


async def test_a_choice_comes_back_whole(stores: Stores) -> None:
    asked = entry("x", 7, chosen_skills=("a", 'quo"te', "ä"), purpose_category="own kind")
    await stores.memory.record_session(asked)
    assert await stores.memory.recall_recent() == [asked]


async def test_a_choice_is_recorded_once(stores: Stores) -> None:
    await stores.memory.record_session(entry("x", chosen_tone="first"))
    await stores.memory.record_session(entry("x", chosen_tone="second"))
    [found] = await stores.memory.recall_recent()
    assert found.chosen_tone == "first"


async def test_a_choice_that_is_damaged_is_left_out_and_hides_no_other(stores: Stores) -> None:
    for name in ("good", "bad"):
        await stores.memory.record_session(entry(name))
    await stores.client.transaction(
        lambda tx: tx.execute("UPDATE builder_memory SET chosen_skills = '[1]' WHERE id = 'bad'").rowcount
    )
    assert await stores.memory.recall_recent() == [entry("good")]
    assert await stores.memory.recall_by_category("coding") == [entry("good")]


@pytest.mark.parametrize("column", ["files", "sha256", "config", "conversation", "provenance"])
async def test_a_version_of_another_form_is_damaged_and_hides_no_other(stores: Stores, column: str) -> None:
    for number in (1, 2):
        await stores.bots.save_version(version(number=number))
    await stores.client.transaction(
        lambda tx: tx.execute(f"UPDATE bot_versions SET {column} = 'null' WHERE number = 2").rowcount
    )
    with pytest.raises(Damaged, match=f"{column} of ada, version 2"):
        await stores.bots.version("ada")
    assert (await stores.bots.version("ada", 1)).number == 1
    assert [bot.slug for bot in await stores.bots.list_bots()] == ["ada"]


async def test_a_version_comes_back_whole_and_is_pending(stores: Stores) -> None:
    saved = await stores.bots.save_version(version(state="current", session_id="s"))
    assert saved == version(session_id="s", created_at_us=1_000)
    for found in (
        await stores.bots.version("ada"),
        await stores.bots.version("ada", 1),
        await stores.bots.version_of_session("s"),
    ):
        assert found == saved


async def test_a_first_version_makes_the_bot_remembers_the_choice_and_takes_the_draft(stores: Stores) -> None:
    await stores.drafts.save_draft(draft("s"), 0)
    await stores.drafts.save_draft(draft("other"), 0)
    await stores.bots.save_version(version(session_id="s"), entry("x"))
    assert [each.session_id for each in await stores.drafts.list_drafts()] == ["other"]
    assert await stores.memory.recall_recent() == [entry("x")]
    [bot] = await stores.bots.list_bots()
    assert (bot.bot_id, bot.slug, bot.name, bot.version, bot.state) == ("id-ada", "ada", "Ada", 1, "pending")


async def test_a_session_that_has_made_a_bot_gets_no_second_draft(stores: Stores) -> None:
    await stores.drafts.save_draft(draft("s"), 0)
    await stores.bots.save_version(version(session_id="s"), entry("x"))
    with pytest.raises(Conflict, match="draft s was changed, created or deleted"):
        await stores.drafts.save_draft(draft("s"), 0)
    assert await stores.drafts.list_drafts() == []


@pytest.mark.parametrize("revision", [1, 3])
async def test_a_version_of_a_draft_that_has_moved_on_is_a_conflict_and_changes_nothing(
    stores: Stores, revision: int
) -> None:
    await stores.drafts.save_draft(draft("s"), 0)
    now = await stores.drafts.save_draft(draft("s", state_json="answered"), 1)
    with pytest.raises(Conflict, match="draft s was changed or deleted"):
        await stores.bots.save_version(version(session_id="s"), entry("x"), draft_revision=revision)
    assert await stores.drafts.load_draft("s") == now
    assert (await stores.bots.list_bots(), await stores.memory.recall_recent()) == ([], [])
    await stores.bots.save_version(version(session_id="s"), entry("x"), draft_revision=2)
    assert await stores.drafts.list_drafts() == []


async def test_a_version_of_a_draft_that_is_gone_is_a_conflict_unless_it_was_that_session(stores: Stores) -> None:
    with pytest.raises(Conflict):
        await stores.bots.save_version(version(session_id="s"), draft_revision=1)
    await stores.drafts.save_draft(draft("s"), 0)
    made = await stores.bots.save_version(version(session_id="s"), draft_revision=1)
    assert await stores.bots.save_version(version("other", session_id="s"), draft_revision=1) == made


async def test_of_an_answer_and_a_version_at_once_exactly_one_is_kept(stores: Stores, migrated_url: str) -> None:
    async with await DatabaseClient.create(migrated_url) as client:
        rival = SqlBuilderDraftStore(client)
        for number in range(10):
            name = f"s{number}"
            await stores.drafts.save_draft(draft(name), 0)
            answer, made = await asyncio.gather(
                rival.save_draft(draft(name, state_json="answered"), 1),
                stores.bots.save_version(version(name, session_id=name), draft_revision=1),
                return_exceptions=True,
            )
            assert {type(answer), type(made)} in ({BuilderDraft, Conflict}, {Conflict, BotVersion})
            left = [each.revision for each in await stores.drafts.list_drafts() if each.session_id == name]
            assert left == ([2] if isinstance(answer, BuilderDraft) else [])


async def test_a_save_that_is_refused_leaves_the_draft_and_remembers_nothing(stores: Stores) -> None:
    await stores.bots.save_version(version())
    kept = await stores.drafts.save_draft(draft("s"), 0)
    for refused in (
        version(bot_id="another", session_id="s"),
        version(session_id="s"),
        version(number=3, session_id="s"),
        version("nobody", number=2, session_id="s"),
        version(bot_id="id-ada", slug="renamed", number=2, session_id="s"),
    ):
        with pytest.raises(Conflict):
            await stores.bots.save_version(refused, entry("x"))
    assert await stores.drafts.load_draft("s") == kept
    assert await stores.memory.recall_recent() == []
    assert len(await stores.bots.versions("ada")) == 1


async def test_a_session_that_has_made_a_version_gets_that_one_back(stores: Stores) -> None:
    first = await stores.bots.save_version(version(session_id="s"))
    again = await stores.bots.save_version(version("other", bot_id="another", session_id="s"), entry("x"))
    assert again == first
    assert [bot.slug for bot in await stores.bots.list_bots()] == ["ada"]
    assert await stores.memory.recall_recent() == []


async def test_of_one_session_that_saves_many_times_at_once_one_bot_comes(stores: Stores, migrated_url: str) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await DatabaseClient.create(migrated_url)) for _ in range(4)]
        rivals = [SqlBotStore(client) for client in clients]
        made = await asyncio.gather(
            *(
                rival.save_version(version(bot_id=f"{n}", session_id="s"), entry(f"{n}"))
                for n, rival in enumerate(rivals * 2)
            )
        )
    assert len({each.bot_id for each in made}) == 1
    assert len(await stores.bots.list_bots()) == 1
    assert len(await stores.memory.recall_recent()) == 1


async def test_of_many_next_versions_at_once_exactly_one_is_stored(stores: Stores, migrated_url: str) -> None:
    await stores.bots.save_version(version())
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await DatabaseClient.create(migrated_url)) for _ in range(4)]
        rivals = [SqlBotStore(client) for client in clients]
        made = await asyncio.gather(
            *(rival.save_version(version(number=2)) for rival in rivals * 2), return_exceptions=True
        )
    assert sum(isinstance(each, BotVersion) for each in made) == 1
    assert sum(isinstance(each, Conflict) for each in made) == len(made) - 1
    assert [each.number for each in await stores.bots.versions("ada")] == [2, 1]


async def test_a_version_becomes_current_and_the_one_before_past(stores: Stores) -> None:
    await stores.bots.save_version(version())
    await stores.bots.mark_current("id-ada", 1)
    await stores.bots.save_version(version(number=2, name="Ada the second"))
    assert await states(stores) == [(2, "pending"), (1, "current")]
    await stores.bots.mark_current("id-ada", 2)
    await stores.bots.mark_current("id-ada", 2)
    assert await states(stores) == [(2, "current"), (1, "past")]
    assert (await stores.bots.version("ada", 1)).name == "Ada"
    assert (await stores.bots.list_bots())[0].name == "Ada the second"


async def test_a_version_that_was_overtaken_does_not_come_back(stores: Stores) -> None:
    await stores.bots.save_version(version())
    await stores.bots.save_version(version(number=2))
    await stores.bots.mark_current("id-ada", 2)
    await stores.bots.mark_current("id-ada", 1)
    assert await states(stores) == [(2, "current"), (1, "past")]
    with pytest.raises(NotFound):
        await stores.bots.mark_current("id-ada", 3)


async def states(stores: Stores) -> list[tuple[int, str]]:
    return [(each.number, each.state) for each in await stores.bots.versions("ada")]


async def test_bots_are_listed_by_their_slugs_page_by_page(stores: Stores) -> None:
    names = ["a", "a-2", "a-b", "aa", "ab", "b", "b-1", "z"]
    for name in reversed(names):
        await stores.bots.save_version(version(name))
    assert names == sorted(names)
    seen: list[str] = []
    while page := await stores.bots.list_bots(limit=3, before=seen[-1] if seen else None):
        seen += [bot.slug for bot in page]
    assert seen == names


async def test_versions_are_listed_newest_first_page_by_page(stores: Stores) -> None:
    for number in range(1, 6):
        await stores.bots.save_version(version(number=number))
    await stores.bots.save_version(version("bob"))
    pages: list[list[int]] = []
    last: int | None = None
    while page := [each.number for each in await stores.bots.versions("ada", limit=2, before=last)]:
        pages.append(page)
        last = page[-1]
    assert pages == [[5, 4], [3, 2], [1]]
    assert await stores.bots.versions("ada", before=1) == []
    with pytest.raises(Invalid):
        await stores.bots.versions("ada", limit=0)
    with pytest.raises(NotFound):
        await stores.bots.versions("nobody", limit=2, before=1)


@pytest.mark.parametrize(
    ("config", "category", "purpose"),
    [
        ({"purpose": "household"}, "simple_utility", BotPurpose.HOUSEHOLD),
        ({"purpose": "other"}, "stamps", BotPurpose.OTHER),
        ({}, "simple_utility", BotPurpose.PERSONAL_ASSISTANT),
        ({}, "stamps", BotPurpose.OTHER),
        ({"purpose": "unknown"}, "coding", BotPurpose.CODING),
        ({"purpose": 1}, "coding", BotPurpose.CODING),
    ],
)
async def test_a_list_of_bots_has_the_purpose_of_the_newest_version(
    stores: Stores, config: dict[str, Any], category: str, purpose: BotPurpose
) -> None:
    await stores.bots.save_version(version(config={"purpose": "games"}))
    await stores.bots.save_version(version(number=2, config=config, category=category))
    [bot] = await stores.bots.list_bots()
    assert (bot.category, bot.purpose) == (category, purpose)


async def test_a_list_of_bots_or_versions_reads_no_files(stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    await stores.bots.save_version(version())
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="perdure.store.sql"):
        await stores.bots.list_bots()
        await stores.bots.versions("ada")
    assert "files" not in " ".join(record.getMessage() for record in caplog.records)


async def test_a_deleted_bot_is_gone_with_its_versions_and_its_slug_and_session_are_free(stores: Stores) -> None:
    await stores.bots.save_version(version(session_id="s"))
    await stores.bots.save_version(version(number=2))
    await stores.bots.delete_bot("ada")
    assert await stores.bots.version_of_session("s") is None
    for ask in (stores.bots.version, stores.bots.versions, stores.bots.delete_bot):
        with pytest.raises(NotFound, match="'ada'"):
            await ask("ada")
    await stores.bots.save_version(version(bot_id="another", session_id="s"))


async def test_a_bot_is_deleted_only_as_it_was_seen(stores: Stores) -> None:
    await stores.bots.save_version(version())
    await stores.bots.save_version(version(number=2))
    for number in (1, 3):
        with pytest.raises(Conflict, match="its newest version is now 2"):
            await stores.bots.delete_bot("ada", number)
    assert [each.number for each in await stores.bots.versions("ada")] == [2, 1]
    await stores.bots.delete_bot("ada", 2)
    with pytest.raises(NotFound, match="'ada'"):
        await stores.bots.delete_bot("ada", 2)


async def test_a_bot_that_is_changed_while_it_is_deleted_is_deleted_or_stays_with_the_change(
    stores: Stores, migrated_url: str
) -> None:
    async with await DatabaseClient.create(migrated_url) as client:
        other = Stores.of(client, count(5_000))
        for round_ in range(10):
            slug = f"bot-{round_}"
            await stores.bots.save_version(version(slug))
            told = await asyncio.gather(
                stores.bots.delete_bot(slug, 1),
                other.bots.save_version(version(slug, 2)),
                return_exceptions=True,
            )
            assert [isinstance(each, Conflict) for each in told].count(True) == 1, told
            left = [each.slug for each in await stores.bots.list_bots()]
            assert (slug in left) is isinstance(told[0], Conflict)


async def test_a_version_that_is_not_there_is_named(stores: Stores) -> None:
    await stores.bots.save_version(version())
    with pytest.raises(NotFound, match="version 2"):
        await stores.bots.version("ada", 2)


async def test_choices_are_listed_page_by_page_removed_one_by_one_and_all_at_once(stores: Stores) -> None:
    for number in range(5):
        await stores.memory.record_session(replace(entry(f"c{number}"), created_at_us=7))
    first = await stores.memory.recall_recent(2)
    rest = await stores.memory.recall_recent(9, before=first[-1].place)
    assert [each.id for each in (*first, *rest)] == ["c4", "c3", "c2", "c1", "c0"]
    await stores.memory.remove_choice("c3")
    for gone in ("c3", "nothing", *NOT_TEXTS):
        with pytest.raises(NotFound):
            await stores.memory.remove_choice(gone)
    assert [each.id for each in await stores.memory.recall_recent()] == ["c4", "c2", "c1", "c0"]
    assert await stores.memory.clear_choices() == 4
    assert (await stores.memory.clear_choices(), await stores.memory.recall_recent()) == (0, [])


class Died(BaseException):
    """What a process feels when it is killed."""


def die() -> None:
    raise Died


@pytest.mark.parametrize("moment", ["", "store.commit.before", "store.commit.after"])
async def test_a_bot_goes_with_its_choices_or_stays_with_them(stores: Stores, moment: str) -> None:
    await stores.bots.save_version(version(), replace(entry("mine"), bot_slug="ada"))
    await stores.memory.record_session(replace(entry("other"), bot_slug="bob"))
    with ExitStack() as stack:
        if moment:
            stack.enter_context(failpoints.armed(moment, die))
            stack.enter_context(pytest.raises(Died))
        await stores.bots.delete_bot("ada", with_choices=True)
    slugs = [each.bot_slug for each in await stores.memory.recall_recent()]
    bots = [each.slug for each in await stores.bots.list_bots()]
    expected = (["ada"], {"ada", "bob"}) if moment == "store.commit.before" else ([], {"bob"})
    assert (bots, set(slugs)) == expected


async def test_a_bot_that_is_deleted_alone_leaves_its_choices(stores: Stores) -> None:
    await stores.bots.save_version(version(), replace(entry("mine"), bot_slug="ada"))
    await stores.bots.delete_bot("ada")
    assert [each.id for each in await stores.memory.recall_recent()] == ["mine"]
