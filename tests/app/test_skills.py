"""`p.skills`: a skill made of a description is whole or not there, safe by its name, and offered to bots."""

import asyncio
import hashlib
import logging
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import AssemblyResult, Conflict, Invalid, NotFound, Perdure
from perdure.app.builder.sessions import SessionView
from perdure.app.builder.skills import Skills
from perdure.bots.skill_folder import SkillFolder
from perdure.bots.skills import catalogue, is_skill_name, parse_skill
from perdure.errors import KeyTaken
from perdure.forge.capabilities import CAPABILITIES, suggest_capabilities
from perdure.forge.new_skill import make_skill, read_skill_request
from perdure.forge.turns import AskQuestion, BuilderTurn
from perdure.kernel.ports import IdempotentCall
from tests import children

MONEY = {"description": "Convert amounts between currencies", "capabilities": ["search-web", "calculate"]}
NAME = "convert-amounts-between-currencies"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def skills(home: Path) -> Skills:
    return Skills(home, home / "bots")


def skill_file(home: Path, name: str = NAME) -> Path:
    return home / "skills" / name / "SKILL.md"


async def test_a_skill_is_made_of_a_description_and_listed_beside_the_built_in_ones(skills: Skills, home: Path) -> None:
    made = await skills.create(MONEY)
    assert made.created_wire() == {
        "name": NAME,
        "description": "Convert amounts between currencies",
        "origin": "builder-created",
        "path": f"skills/{NAME}/SKILL.md",
        "capabilities": [{"name": name, "reason": "you asked for it"} for name in ("search-web", "calculate")],
    }
    text = skill_file(home).read_text()
    assert text == (
        f"---\nname: {NAME}\ndescription: Convert amounts between currencies\n"
        "metadata:\n  skill-type: builder-created\n---\n# Convert amounts between currencies\n\n"
        "Convert amounts between currencies\n\n## What it may use\n\n"
        "- search-web: Search the web, and name every source.\n"
        "- calculate: Calculate exactly, and show the steps.\n"
    )
    assert parse_skill(text, "SKILL.md", folder=NAME).instructions.endswith("and show the steps.")
    assert stat.S_IMODE(skill_file(home).stat().st_mode) == 0o600
    names = [skill.skill.name for skill in await skills.list()]
    assert names == [*catalogue(), NAME]
    assert (await skills.get(NAME)).details_wire()["instructions"].startswith("# Convert amounts")


async def test_the_same_request_changes_nothing_and_another_of_that_name_is_refused(skills: Skills, home: Path) -> None:
    first = await skills.create({**MONEY, "name": "money"})
    before = skill_file(home, "money").stat()
    assert await skills.create({**MONEY, "name": "money"}) == first
    assert skill_file(home, "money").stat() == before
    with pytest.raises(Conflict, match="Another skill money"):
        await skills.create({"name": "money", "description": "Something else"})
    with pytest.raises(Conflict, match="built in"):
        await skills.create({"name": "summarize", "description": "Mine"})
    skill_file(home, "money").write_text(skill_file(home, "money").read_text() + "By hand.\n")
    with pytest.raises(Conflict):
        await skills.create({**MONEY, "name": "money"})
    assert skill_file(home, "money").read_text().endswith("By hand.\n")


async def test_of_many_who_ask_for_one_name_at_once_one_gets_it(skills: Skills, home: Path) -> None:
    asked = [{"name": "money", "description": f"Way {number % 3}"} for number in range(9)]
    told = await asyncio.gather(*(Skills(home, home / "bots").create(each) for each in asked), return_exceptions=True)
    made = [each for each in told if not isinstance(each, BaseException)]
    assert len(made) == 3
    assert len(set(made)) == 1
    assert {type(each) for each in told if isinstance(each, BaseException)} == {Conflict}
    assert (await skills.get("money")).skill == made[0].skill


@pytest.mark.parametrize(
    "request_",
    [
        *(None, [], "text", {}, {"description": ""}, {"description": " \n "}, {"description": 7}),
        *({"description": "x", "name": name} for name in ("", "A", "a b", "../a", "a/b", "con", "-a", "x" * 65, "ä")),
        *({"description": f"x{odd}"} for odd in ("\0", "\x1b[2J", "\ud800")),
        *({"description": "x", "more": 1}, {"description": "x", "capabilities": ["x"] * 21}),
        *({"description": "x", "capabilities": each} for each in ([""], "x", [7], ["a\x07"], ["x" * 201], ["fly"])),
        {"description": "x" * 10_001},
    ],
)
async def test_a_request_that_is_invalid_is_refused_and_nothing_is_made(
    skills: Skills, home: Path, request_: Any
) -> None:
    with pytest.raises(Invalid):
        await skills.create(request_)
    assert not home.exists()


def test_capabilities_are_suggested_by_whole_words_with_their_reasons() -> None:
    found = suggest_capabilities("Convert prices from a CSV file, and ask before it deletes anything")
    assert [(each.name, each.reason) for each in found] == [
        ("read-files", 'the description says "csv", "file"'),
        ("write-files", 'the description says "file"'),
        ("search-web", 'the description says "prices"'),
        ("calculate", 'the description says "convert"'),
        ("ask-user", 'the description says "ask", "deletes"'),
    ]
    assert suggest_capabilities("a breadbasket for profiles") == []


@pytest.mark.parametrize(
    ("description", "names"),
    [
        ("suggest books about bees", []),
        ("which book should I read next", []),
        ("keep a log of the books I read", ["remember"]),
        ("find papers and books about bees", []),
        ("Book a table, and write the bill", ["write-files", "ask-user"]),
        ("something that books flights", ["ask-user"]),
    ],
)
def test_only_the_verb_book_is_a_booking(description: str, names: list[str]) -> None:
    assert [each.name for each in suggest_capabilities(description)] == names


def test_the_reason_quotes_the_description() -> None:
    [found] = suggest_capabilities("Keep a reading log")
    assert found.reason == 'the description says "keep a reading log"'


async def test_a_skill_without_capabilities_gets_those_that_its_description_speaks_for(skills: Skills) -> None:
    made = await skills.create({"description": "Convert amounts between currencies"})
    assert [each["name"] for each in made.created_wire()["capabilities"]] == ["calculate"]
    assert "- calculate: " in made.skill.instructions
    with pytest.raises(Invalid, match=r"'fly' is not a known capability\. Expected some of: read-files"):
        await skills.create({"description": "x", "capabilities": ["fly"]})


async def test_a_skill_is_edited_only_as_it_was_seen_and_only_to_a_skill(skills: Skills) -> None:
    made = await skills.create({"description": "Convert amounts", "name": "money"})
    before = await skills.text("money")
    after = before.replace("Convert amounts", "Convert all amounts")
    assert (await skills.edit("money", after, seen=before)).skill.description == "Convert all amounts"
    with pytest.raises(Conflict, match="changed meanwhile"):
        await skills.edit("money", before, seen=before)
    for wrong in ("", "no front matter", after.replace("name: money", "name: other")):
        with pytest.raises(Invalid):
            await skills.edit("money", wrong)
    with pytest.raises(Conflict, match="built in"):
        await skills.edit("summarize", after)
    with pytest.raises(NotFound):
        await skills.edit("nothing", after)
    assert (await skills.get(made.skill.name)).skill.description == "Convert all amounts"


@given(st.text(min_size=1, max_size=2000), st.lists(st.sampled_from([*CAPABILITIES, "fly"]), max_size=3))
def test_any_description_becomes_a_skill_that_reads_back_or_is_refused(
    description: str, capabilities: list[str]
) -> None:
    try:
        skill, text = make_skill(read_skill_request({"description": description, "capabilities": capabilities}))
    except Invalid:
        return
    assert is_skill_name(skill.name)
    assert parse_skill(text, "SKILL.md", folder=skill.name, skill_type="builder-created") == skill
    assert make_skill(read_skill_request({"description": description, "capabilities": capabilities})) == (skill, text)


@pytest.mark.parametrize("hostile", ["---", "---\nname: evil", "a: b # c", "*x", "!!python/object", "yes", "123", "{}"])
def test_a_description_is_never_read_as_front_matter(hostile: str) -> None:
    skill, text = make_skill(read_skill_request({"name": "safe", "description": hostile}))
    assert (skill.name, skill.description) == ("safe", " ".join(hostile.split()))
    assert text.count("\nname:") == 1 + hostile.count("\nname:")


async def test_a_link_in_the_way_is_not_followed(skills: Skills, home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    home.mkdir()
    (home / "skills").symlink_to(outside)
    with pytest.raises(Invalid, match="a link is not followed"):
        await skills.create(MONEY)
    (home / "skills").unlink()
    (home / "skills").mkdir()
    (home / "skills" / NAME).symlink_to(outside)
    with pytest.raises(Invalid, match="a link is not followed"):
        await skills.create(MONEY)
    (home / "skills" / NAME).unlink()
    (home / "skills" / NAME).mkdir()
    skill_file(home).symlink_to(outside / "target")
    with pytest.raises(Invalid, match="a link is not followed"):
        await skills.create(MONEY)
    assert list(outside.iterdir()) == []


async def test_a_home_that_is_itself_a_link_is_a_home(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    home.symlink_to(tmp_path / "elsewhere")
    skills = Skills(home, home / "bots")
    await skills.create(MONEY)
    assert (await skills.get(NAME)).skill.name == NAME


async def test_what_was_put_there_by_hand_is_custom_and_what_is_broken_hides_no_other(
    skills: Skills, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, text in {
        "tidy": "---\nname: tidy\ndescription: Tidies up.\n---\nPut things back.\n",
        "broken": "no front matter",
        "other-name": "---\nname: tidy\ndescription: Tidies up.\n---\nPut things back.\n",
        "summarize": "---\nname: summarize\ndescription: Mine.\n---\nMine.\n",
        "Not-A-Name": "x",
    }.items():
        skill_file(home, name).parent.mkdir(parents=True)
        skill_file(home, name).write_text(text)
    (home / "skills" / "empty").mkdir()
    (home / "skills" / "file").write_text("x")
    with caplog.at_level(logging.WARNING):
        listed = {skill.skill.name: skill.wire()["origin"] for skill in await skills.list()}
    assert {name: listed[name] for name in listed if name not in catalogue()} == {"tidy": "custom"}
    assert listed["summarize"] == "builtin"
    assert len([each for each in caplog.messages if "skipped" in each]) == 2
    with pytest.raises(Invalid, match="broken/SKILL.md"):
        await skills.get("broken")
    for missing in ("empty", "nothing", "../tidy", "Not-A-Name", "\0", ""):
        with pytest.raises(NotFound):
            await skills.get(missing)


async def make_money(home: Path) -> None:
    await Skills(home, home / "bots").create(MONEY)


@pytest.mark.parametrize("point", ["bots.file.before", "bots.file.after"])
async def test_a_killed_process_leaves_a_whole_skill_or_none(skills: Skills, home: Path, point: str) -> None:
    children.run_until(point, make_money, home)
    there = [skill.skill.name for skill in await skills.list() if skill.skill.name not in catalogue()]
    assert there == ([NAME] if point.endswith("after") else [])
    assert (await skills.create(MONEY)).skill.name == NAME
    assert [path.name for path in (home / "skills" / NAME).iterdir()] == ["SKILL.md"]


async def test_a_key_is_for_one_request() -> None:
    def call(body: object) -> IdempotentCall:
        return IdempotentCall("k", "create-skill", hashlib.sha256(repr(body).encode()).digest())

    async with Perdure.open() as p:
        made = await p.skills.create(MONEY, once=call(MONEY))
        assert await p.skills.create(MONEY, once=call(MONEY)) == made
        with pytest.raises(KeyTaken):
            await p.skills.create({"description": "Another one"}, once=call("other"))
        assert [name for name, _ in await p.forge._context.known_skills()][-1] == NAME


async def test_a_skill_is_offered_to_a_bot_that_it_fits_and_attached_with_its_text(home: Path) -> None:
    async with Perdure.open(home) as p:
        await p.skills.create({**MONEY, "name": "money"})
        session = await p.forge.start("a bot that can convert currencies for travellers")
        session = await asked_for_skills(p, session)
        assert isinstance(session.turn, AskQuestion)
        labels = [option.label for option in session.turn.options]
        (at,) = [number for number, label in enumerate(labels) if label.endswith("money")]
        session = await p.forge.answer(session.session_id, {"option_index": at})
        result = await built(p, session.session_id)
        assert "money" in result.skills_attached
        bot = await p.bots.get(result.bot_slug)
        (skill,) = [skill for skill in bot.skills if skill.name == "money"]
        assert (skill.skill_type, "name every source" in skill.instructions) == ("builder-created", True)
        text = skill_file(home, "money").read_text()
        assert (home / "bots" / result.bot_slug / "skills" / "money" / "SKILL.md").read_text() == text


async def test_a_skill_made_in_the_course_of_a_session_can_be_named_in_its_next_answer(home: Path) -> None:
    async with Perdure.open(home) as p:
        session = await p.forge.start('a coding assistant called "Ada" that reviews Python')
        session = await asked_for_skills(p, session)
        with pytest.raises(Invalid, match="There is no skill 'money'"):
            await p.forge.answer(session.session_id, {"free_text": "money"})
        made = await p.forge.create_skill(session.session_id, {**MONEY, "name": "money"})
        assert (await p.forge.get(session.session_id)).revision == session.revision, "nobody's revision is stale"
        await p.forge.answer(session.session_id, {"free_text": "money"}, session.revision)
        result = await built(p, session.session_id)
        assert result.skills_attached == (made.skill.name,)


async def test_a_bot_that_is_there_gets_a_skill_and_keeps_the_text_that_it_got(home: Path) -> None:
    async with Perdure.open(home) as p:
        session = await p.forge.start('a coding assistant called "Ada" that reviews Python')
        result = await built(p, session.session_id)
        await p.skills.create({**MONEY, "name": "money"})
        for wanted in ("money", "money, summarize"):
            session = await p.forge.reconfigure(result.bot_slug, description="other skills")
            session = await asked_for_skills(p, session)
            await p.forge.answer(session.session_id, {"free_text": wanted})
            result = await built(p, session.session_id)
            assert result.skills_attached == tuple(wanted.split(", "))
            skill_file(home, "money").write_text(
                skill_file(home, "money").read_text().replace("every source", "no source")
            )
        bot = await p.bots.get(result.bot_slug)
        assert [skill.skill_type for skill in bot.skills] == ["builder-created", "builtin"]
        assert "name every source" in bot.prompt()


async def test_a_skill_needs_a_session_that_is_there() -> None:
    async with Perdure.open() as p:
        for unknown in ("0190a1b2-c3d4-7e5f-8a6b-0123456789ab", "nothing"):
            with pytest.raises(NotFound):
                await p.forge.create_skill(unknown, MONEY)
        assert SkillFolder(p.settings.home).skills() == ()


def first(turn: BuilderTurn) -> dict[str, Any]:
    """What somebody says who takes the first option, and likes what is shown."""
    return {"option_index": 0} if isinstance(turn, AskQuestion) else {"confirm": True}


async def asked_for_skills(p: Perdure, session: SessionView) -> SessionView:
    while not (isinstance(session.turn, AskQuestion) and "Which skills" in session.turn.question):
        session = await p.forge.answer(session.session_id, first(session.turn))
    return session


async def built(p: Perdure, session_id: str) -> AssemblyResult:
    """Answer the rest with the first option, and build."""
    session = await p.forge.get(session_id)
    while session.turn.action != "ready_to_assemble":
        session = await p.forge.answer(session_id, first(session.turn))
    return await p.forge.assemble(session_id)
