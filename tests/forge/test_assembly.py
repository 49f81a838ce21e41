"""Assembly: what is built is what was chosen; changes keep what a person wrote; nothing is built twice."""

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from perdure import AssemblyResult, Bot, Conflict, Invalid, NotFound, failpoints
from perdure.bots.archive import read_archive, unpack_bot
from perdure.bots.folder import verify
from perdure.forge.answers import FreeText
from perdure.forge.config import BuilderConfig
from perdure.forge.interview.interview import apply_answer, start_interview, start_reconfiguration
from perdure.forge.state import PastChoice
from perdure.forge.turns import AskQuestion, ReadyToAssemble
from perdure.store.builder.bots import SqlBotStore
from perdure.store.builder.choices import SqlBuilderMemoryStore
from tests.conftest import BACKENDS
from tests.forge.bot_store import FileBotStore
from tests.forge.bots import CODING, HERE, Home, emptied, home_at, home_in, new_session, ready, url_of


@pytest.fixture(params=["file", *BACKENDS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """Where bots are kept: in the test's own store, and in each kind of database."""
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def home(url: str | None, tmp_path: Path) -> AsyncIterator[Home]:
    async with home_at(tmp_path, url and await emptied(url)) as home:
        yield home


async def choices(home: Home) -> list[str | None]:
    """The bots whose choices are remembered."""
    if isinstance(home.store, FileBotStore):
        return [choice["bot_slug"] for choice in home.store.choices()]
    assert isinstance(home.store, SqlBotStore)
    return [entry.bot_slug for entry in await SqlBuilderMemoryStore(home.store._client).recall_recent()]


def config_of_ready(description: str = CODING) -> BuilderConfig:
    turn = ready(description).pending_turn
    assert isinstance(turn, ReadyToAssemble)
    return turn.config


def front(path: Path) -> dict[str, object]:
    return cast("dict[str, object]", yaml.safe_load(path.read_text().split("---\n")[1]))


async def test_what_is_built_is_what_was_chosen(home: Home) -> None:
    config = config_of_ready()
    result = await home.build()
    assert isinstance(result, AssemblyResult)
    assert result.model_dump(exclude={"bot_id"}) == {
        "bot_slug": "ada",
        "bot_name": "Ada",
        "soul_path": "bots/ada/SOUL.md",
        "identity_path": "bots/ada/IDENTITY.md",
        "user_path": "bots/ada/USER.md",
        "skills_attached": ("code-review", "code-generation"),
        "version": 1,
        "clashes": (),
        "set_aside": (),
        "changed": True,
    }
    assert front(home.path("ada/IDENTITY.md")) == {
        "display_name": "Ada",
        "category": "coding",
        "provider": "ollama",
        "model": "ollama:llama3.2",
        "temperature": config.model_settings.temperature,
        "max_tokens": config.model_settings.max_tokens,
    }
    files = [home.bots_dir.parent / path for path in (result.soul_path, result.identity_path, result.user_path)]
    assert all(path.is_file() for path in files)
    assert verify(home.path("ada")) == []
    assert (await home.store.version("ada")).state == "current"


async def test_the_settings_and_the_prompt_reach_the_runner_of_the_bot(home: Home) -> None:
    await home.build()
    home.edit("ada/IDENTITY.md", "temperature: 0.2", "temperature: 1.5")
    home.edit("ada/SOUL.md", "## Boundaries", "Be kind to beginners.\n\n## Boundaries")
    bot = await home.assembler.open_bot("ada")
    assert isinstance(bot, Bot)
    settings = bot.model_settings
    assert (settings.provider, settings.model) == ("ollama", "ollama:llama3.2")
    assert (settings.temperature, settings.max_tokens) == (1.5, 4096)
    prompt = bot.prompt()
    assert prompt.startswith("You are Ada.\nYour tone: technical.\nYour traits: precise, methodical, pragmatic.\n")
    for told in (
        "Be kind to beginners.",
        CODING,
        "# Skill: code-review",
        "Would a test fail if the change were undone?",
    ):
        assert told in prompt


async def test_a_session_that_is_not_ready_builds_nothing(home: Home) -> None:
    with pytest.raises(Conflict, match="not ready"):
        await home.assembler.assemble(start_interview("s", CODING, HERE))
    assert not home.bots_dir.exists()


async def test_an_edited_config_is_checked_whole_and_built(home: Home) -> None:
    state, config = ready(), config_of_ready()
    bad = config.model_copy(update={"name": "a\nb\x00"})
    with pytest.raises(Invalid, match="name"):
        await home.assembler.assemble(state, bad)
    twice = config.model_copy(update={"skills": (config.skills[0], config.skills[0])})
    with pytest.raises(Invalid, match="twice"):
        await home.assembler.assemble(state, twice)
    unknown = config.skills[0].model_copy(update={"name": "teleport"})
    with pytest.raises(Invalid, match="no built-in skill 'teleport'"):
        await home.assembler.assemble(state, config.model_copy(update={"skills": (unknown,)}))
    nameless = config.model_settings.model_copy(update={"model": "gpt"})
    with pytest.raises(Invalid, match="'gpt' is not a model"):
        await home.assembler.assemble(state, config.model_copy(update={"model_settings": nameless}))
    assert not home.bots_dir.exists()
    fewer = config.model_copy(update={"skills": config.skills[:1], "description": "Help us bake. I am a nurse."})
    result = await home.assembler.assemble(state, fewer)
    assert result.skills_attached == ("code-review",)
    assert not home.path("ada/skills/code-generation").exists()
    user = home.path("ada/USER.md").read_text()
    assert "## Who they are\n\n- They are a nurse.\n" in user
    assert user.endswith("They asked for you in these words:\n\n> Help us bake. I am a nurse.\n")


async def test_a_skill_of_ones_own_gets_a_text(home: Home) -> None:
    config = config_of_ready()
    own = config.skills[0].model_copy(
        update={"name": "haiku", "description": "Writes haiku:\n5-7-5.", "skill_type": "builder-created"}
    )
    await home.assembler.assemble(ready(), config.model_copy(update={"skills": (own,)}))
    [skill] = (await home.assembler.open_bot("ada")).skills
    assert (skill.name, skill.description, skill.skill_type) == ("haiku", "Writes haiku: 5-7-5.", "builder-created")
    assert skill.instructions == "Writes haiku:\n5-7-5."


async def test_assembling_again_returns_the_stored_result(home: Home) -> None:
    first = await home.build(session_id="s")
    assert await home.build(session_id="s") == first
    assert await home.assembler.resume_assembly("s") == first
    assert await home.assembler.resume_assembly("another") is None
    assert len(await home.store.list_bots()) == 1
    assert await choices(home) == ["ada"]
    await home.change("ada", tone="formal")
    assert await choices(home) == ["ada", "ada"], "what was chosen in a change is remembered, too"


async def test_assembling_at_the_same_time_gives_one_bot(home: Home) -> None:
    results = await asyncio.gather(*(home.build(session_id="s") for _ in range(8)))
    assert len({result.bot_id for result in results}) == 1
    assert [path.name for path in home.bots_dir.iterdir() if not path.name.startswith(".")] == ["ada"]


async def test_bots_of_one_name_get_slugs_of_their_own_also_at_the_same_time(home: Home) -> None:
    results = await asyncio.gather(*(home.build() for _ in range(5)))
    assert {result.bot_slug for result in results} == {"ada", "ada-2", "ada-3", "ada-4", "ada-5"}
    assert len({result.bot_id for result in results}) == 5


async def test_what_lies_in_the_folder_of_bots_is_never_taken_over(home: Home) -> None:
    home.path("ada").mkdir(parents=True)
    home.path("ada/mine.txt").write_text("mine")
    home.path("ada-2").symlink_to("/")
    assert (await home.build()).bot_slug == "ada-3"
    assert [path.name for path in home.path("ada").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "name",
    [
        "Ada: the 'best' #1",
        '"',
        "--- ada ---",
        "../../etc/passwd",
        "🤖",
        "con",
        "aux",
        "\u0430da",
        "x" * 120,
        "null",
        "~",
    ],
)
async def test_any_name_gets_a_safe_slug_and_comes_back_unchanged(home: Home, name: str) -> None:
    result = await home.assembler.assemble(ready(), config_of_ready().model_copy(update={"name": name}))
    bot = await home.assembler.open_bot(result.bot_slug)
    assert (bot.name, bot.soul.name) == (name, name)
    assert {path.name for path in home.bots_dir.iterdir()} == {result.bot_slug, ".lock"}
    beside = {path.name.partition(".")[0] for path in home.bots_dir.parent.iterdir()}
    assert beside <= {"bots", "store", "perdure"}, "the folder of bots, and the database"


async def test_a_slug_is_checked_before_any_path_is_built(home: Home) -> None:
    for slug in ("../x", "a/b", "", "con", "A", "a\n", "a--b", "x" * 65):
        with pytest.raises(Invalid, match="not a valid slug"):
            await home.assembler.open_bot(slug)
        with pytest.raises(Invalid, match="not a valid slug"):
            await home.assembler.delete(slug)


async def test_a_change_keeps_id_slug_and_what_was_not_asked_and_adds_one_version(home: Home) -> None:
    built = await home.build()
    changed = await home.change("ada", tone="like a pirate", name="Captain Ada")
    assert (changed.bot_id, changed.bot_slug, changed.bot_name) == (built.bot_id, "ada", "Captain Ada")
    assert (changed.version, changed.clashes) == (2, ())
    assert changed.skills_attached == built.skills_attached
    bot = await home.assembler.open_bot("ada")
    assert (bot.name, bot.soul.name, bot.soul.tone) == ("Captain Ada", "Captain Ada", "like a pirate")
    assert "Speak in this tone: like a pirate." in bot.prompt()
    assert bot.model_settings.temperature == 0.2
    assert [(each.number, each.state, each.origin) for each in await home.store.versions("ada")] == [
        (2, "current", "reconfigure"),
        (1, "past", "assemble"),
    ]


async def test_changes_are_shown_before_they_are_made(home: Home) -> None:
    await home.build()
    state = await home.changing("ada", tone="formal")
    changes = await home.assembler.preview_changes(state)
    assert set(changes.diffs) == {"SOUL.md"}
    assert "-tone: technical\n+tone: formal\n" in changes.diffs["SOUL.md"]
    assert (await home.store.version("ada")).number == 1
    new = await home.assembler.preview_changes(ready())
    assert "+name: Ada\n" in new.diffs["SOUL.md"]
    await home.assembler.assemble(state)
    assert "tone: formal" in home.path("ada/SOUL.md").read_text()


async def test_hand_edits_are_noticed_and_shown(home: Home) -> None:
    await home.build()
    assert await home.assembler.edits("ada") == {}
    home.path("ada/USER.md").write_bytes(home.path("ada/USER.md").read_bytes().replace(b"\n", b"\r\n"))
    assert await home.assembler.edits("ada") == {}, "other ends of lines are no edit"
    home.edit("ada/SOUL.md", "tone: technical", "tone: warm")
    edits = await home.assembler.edits("ada")
    assert list(edits) == ["SOUL.md"]
    assert "SOUL.md (version 1)" in edits["SOUL.md"]
    assert "-tone: technical\n+tone: warm\n" in edits["SOUL.md"]


async def test_hand_edits_survive_one_change_after_the_other(home: Home) -> None:
    await home.build()
    home.edit("ada/SOUL.md", "---\nname: Ada\n", "---\n# my own bot\nname: Ada\nmood: sunny\n")
    home.edit("ada/SOUL.md", "## Purpose\n", "## Purpose\n\nAlso water the plants.\n")
    home.edit("ada/USER.md", "They asked for you", "I am Kim. I asked for you")
    home.edit("ada/skills/code-review/SKILL.md", "# Reviewing code", "# Reviewing our code")
    home.path("ada/notes.txt").write_text("mine")
    for tone in ("formal", "playful", "direct"):
        assert (await home.change("ada", tone=tone, variety="0.7")).clashes == ()
    soul = home.path("ada/SOUL.md").read_text()
    assert soul.startswith("---\n# my own bot\nname: Ada\nmood: sunny\n")
    assert "tone: direct" in soul
    assert "- Say what there is to say, then stop.\n" in soul
    assert "Also water the plants." in soul
    assert "I am Kim." in home.path("ada/USER.md").read_text()
    assert "# Reviewing our code" in home.path("ada/skills/code-review/SKILL.md").read_text()
    assert home.path("ada/notes.txt").read_text() == "mine"
    assert front(home.path("ada/IDENTITY.md"))["temperature"] == 0.7
    assert await home.assembler.edits("ada") == {}


async def test_a_clash_keeps_the_persons_text_and_puts_ours_beside_it(home: Home) -> None:
    await home.build()
    home.edit("ada/SOUL.md", "- Use exact terms and no decoration.", "- Use my words.")
    result = await home.change("ada", tone="formal")
    assert result.clashes == ("SOUL.md",)
    soul = home.path("ada/SOUL.md").read_text()
    assert "- Use my words." in soul
    assert "tone: formal" in soul, "what does not clash is changed"
    assert "Be polite and correct" in home.path("ada/SOUL.md.new").read_text()
    assert (await home.assembler.open_bot("ada")).soul.tone == "formal"
    assert await home.assembler.edits("ada") == {}


async def test_what_stands_in_the_files_is_what_a_change_begins_with(home: Home) -> None:
    await home.build()
    home.edit("ada/SOUL.md", "tone: technical", "tone: warm")
    home.edit("ada/IDENTITY.md", "ollama:llama3.2", "openai:gpt-x")
    target = await home.assembler.target("ada")
    assert target.config["personality"]["tone"] == "warm"
    assert target.config["model_config"]["model"] == "openai:gpt-x"
    await home.change("ada", variety="1")
    bot = await home.assembler.open_bot("ada")
    assert (bot.soul.tone, bot.model_settings.model, bot.model_settings.temperature) == ("warm", "openai:gpt-x", 1.0)
    assert "- Speak in this tone: warm.\n" in home.path("ada/SOUL.md").read_text()


async def test_a_skill_that_a_person_added_stays(home: Home) -> None:
    await home.build()
    home.path("ada/skills/tea").mkdir()
    home.path("ada/skills/tea/SKILL.md").write_text("---\nname: tea\ndescription: makes tea\n---\nBoil water.\n")
    with home.path("ada/skills.toml").open("a") as file:
        file.write("\n# my own\n[tea]\ndescription = 'tea'\n")
    result = await home.change("ada", skills="code-review, summarize")
    assert result.skills_attached == ("code-review", "tea", "summarize")
    assert "# my own\n" in home.path("ada/skills.toml").read_text()
    assert not home.path("ada/skills/code-generation").exists()
    assert [skill.name for skill in (await home.assembler.open_bot("ada")).skills] == [
        "code-review",
        "tea",
        "summarize",
    ]


async def test_the_text_of_a_skill_that_is_taken_away_stays_when_a_person_edited_it(home: Home) -> None:
    await home.build()
    home.edit("ada/skills/code-generation/SKILL.md", "# Writing code", "# Writing my code")
    result = await home.change("ada", skills="code-review")
    assert result.clashes == ("skills/code-generation/SKILL.md",)
    assert "my code" in home.path("ada/skills/code-generation/SKILL.md").read_text()
    assert result.skills_attached == ("code-review",)


async def test_a_file_that_cannot_be_read_is_named_and_nothing_is_changed(home: Home) -> None:
    await home.build()
    state = await home.changing("ada", tone="formal")
    home.edit("ada/SOUL.md", "name: Ada", "name: [")
    with pytest.raises(Invalid, match="ada/SOUL.md:"):
        await home.assembler.assemble(state)
    assert (await home.store.version("ada")).number == 1
    assert "name: [" in home.path("ada/SOUL.md").read_text()


async def test_a_bot_that_was_changed_meanwhile_is_a_conflict(home: Home) -> None:
    await home.build()
    first, second = await home.changing("ada", tone="formal"), await home.changing("ada", tone="playful")
    result = await home.assembler.assemble(first)
    with pytest.raises(Conflict, match="changed since"):
        await home.assembler.assemble(second)
    assert await home.assembler.assemble(first) == result


async def test_a_rollback_is_a_new_version_and_keeps_hand_edits_beside(home: Home) -> None:
    await home.build()
    before = home.path("ada/SOUL.md").read_text()
    await home.change("ada", tone="formal", skills="summarize")
    home.edit("ada/SOUL.md", "tone: formal", "tone: warm")
    result = await home.assembler.rollback("ada", 1)
    assert (result.version, result.set_aside) == (3, ("SOUL.md.old",))
    assert home.path("ada/SOUL.md").read_text() == before
    assert "tone: warm" in home.path("ada/SOUL.md.old").read_text()
    assert result.skills_attached == ("code-review", "code-generation")
    assert not home.path("ada/skills/summarize").exists()
    with pytest.raises(NotFound, match="version 9"):
        await home.assembler.rollback("ada", 9)


async def test_a_rollback_removes_the_text_of_forge_beside_a_clash(home: Home) -> None:
    await home.build()
    home.edit("ada/SOUL.md", "- Use exact terms and no decoration.", "- Use my words.")
    assert (await home.change("ada", tone="formal")).clashes == ("SOUL.md",)
    assert home.path("ada/SOUL.md.new").exists()
    await home.assembler.rollback("ada", 1)
    assert home.path("ada/SOUL.md.old").exists()
    assert not home.path("ada/SOUL.md.new").exists()


async def test_a_rollback_keeps_an_edit_made_between_two_versions_beside(home: Home) -> None:
    await home.build()
    before = home.path("ada/SOUL.md").read_text()
    home.edit("ada/SOUL.md", "## Purpose\n", "## Purpose\n\nAlso water the plants.\n")
    await home.change("ada", tone="formal", skills="summarize")
    await home.change("ada", tone="playful")
    edited = [each.hand_edits for each in await home.store.versions("ada")]
    assert [list(paths) for paths in edited] == [[], ["SOUL.md"], []]
    now = home.path("ada/SOUL.md").read_text()
    result = await home.assembler.rollback("ada", 1)
    assert result.set_aside == ("SOUL.md.old",)
    assert home.path("ada/SOUL.md").read_text() == before
    assert home.path("ada/SOUL.md.old").read_text() == now
    assert "Also water the plants." in now


async def test_a_rollback_to_a_version_that_has_the_edit_puts_nothing_beside(home: Home) -> None:
    await home.build()
    home.edit("ada/SOUL.md", "## Purpose\n", "## Purpose\n\nAlso water the plants.\n")
    await home.change("ada", tone="formal")
    await home.change("ada", tone="playful")
    assert (await home.assembler.rollback("ada", 2)).set_aside == ()
    assert "Also water the plants." in home.path("ada/SOUL.md").read_text()
    assert (await home.assembler.rollback("ada", 1)).set_aside == ("SOUL.md.old",)
    await home.change("ada", tone="direct")
    assert (await home.assembler.rollback("ada", 1)).set_aside == (), "text that Forge wrote is not a hand edit"


async def test_a_rollback_keeps_a_value_of_the_front_matter_that_was_edited_between_two_versions(home: Home) -> None:
    await home.build()
    home.edit("ada/SOUL.md", "tone: technical", "tone: warm")
    await home.change("ada", variety="1")
    result = await home.assembler.rollback("ada", 1)
    assert result.set_aside == ("SOUL.md.old",)
    assert "tone: warm" in home.path("ada/SOUL.md.old").read_text()
    assert (await home.assembler.open_bot("ada")).soul.tone == "technical"


@pytest.mark.parametrize("is_in_a_version", [True, False])
async def test_a_rollback_keeps_a_skill_added_by_hand_beside(home: Home, is_in_a_version: bool) -> None:
    await home.build()
    home.path("ada/skills/tea").mkdir()
    home.path("ada/skills/tea/SKILL.md").write_text("---\nname: tea\ndescription: makes tea\n---\nBoil water.\n")
    with home.path("ada/skills.toml").open("a") as file:
        file.write("\n# my own\n[tea]\ndescription = 'tea'\n")
    await home.change("ada", tone="formal")
    if not is_in_a_version:
        home.edit("ada/skills/tea/SKILL.md", "Boil", "Heat")
    result = await home.assembler.rollback("ada", 1)
    assert result.set_aside == ("skills.toml.old", "skills/tea/SKILL.md.old")
    assert "# my own\n" in home.path("ada/skills.toml.old").read_text()
    assert ("Boil" if is_in_a_version else "Heat") in home.path("ada/skills/tea/SKILL.md.old").read_text()
    assert not home.path("ada/skills/tea/SKILL.md").exists()
    assert result.skills_attached == ("code-review", "code-generation")
    assert await home.assembler.verify("ada") == []
    assert await home.assembler.edits("ada") == {}


async def test_a_rollback_repairs_what_cannot_be_read(home: Home, tmp_path: Path) -> None:
    await home.build()
    home.path("ada/SOUL.md").unlink()
    home.path("ada/SOUL.md").symlink_to(tmp_path / "elsewhere")
    home.path("ada/IDENTITY.md").write_bytes(b"\xff")
    home.path("ada/USER.md").unlink()
    home.path("ada/USER.md").mkdir()
    with pytest.raises(Invalid, match="ada/SOUL.md is not a regular file"):
        await home.assembler.open_bot("ada")
    result = await home.assembler.rollback("ada", 1)
    assert set(result.set_aside) == {"SOUL.md.old", "IDENTITY.md.old", "USER.md.old"}
    assert (await home.assembler.open_bot("ada")).name == "Ada"
    assert (await home.assembler.rollback("ada", 1)).set_aside == ()


async def test_a_folder_that_is_gone_comes_back_with_a_rollback(home: Home) -> None:
    await home.build()
    home.path("ada").rename(home.bots_dir / "elsewhere")
    with pytest.raises(NotFound):
        await home.assembler.open_bot("ada")
    await home.assembler.rollback("ada", 1)
    assert (await home.assembler.open_bot("ada")).name == "Ada"


async def test_a_deleted_bot_leaves_nothing(home: Home) -> None:
    await home.build()
    await home.assembler.delete("ada")
    assert [path.name for path in home.bots_dir.iterdir()] == [".lock"]
    assert await home.store.list_bots() == []
    with pytest.raises(NotFound):
        await home.assembler.delete("ada")
    assert (await home.build()).bot_slug == "ada"


async def line_of(home: Home, text: str, path: str = "SOUL.md") -> str:
    lines = home.path(f"ada/{path}").read_text().split("\n")
    number = next(at for at, line in enumerate(lines, 1) if text in line)
    return (await home.assembler.explain("ada", f"{path}:{number}")).sentence


async def test_every_line_is_explained_by_what_it_came_from(home: Home) -> None:
    await home.build()
    assert await line_of(home, "tone: technical") == "asked: How should it speak? Answered: Technical"
    assert await line_of(home, "- Use exact terms") == "asked: How should it speak? Answered: Technical"
    assert await line_of(home, "name: Ada") == f"from the description: {CODING}"
    assert await line_of(home, "You are a coding assistant") == f"from the description: {CODING}"
    assert await line_of(home, CODING, "USER.md") == f"from the description: {CODING}"
    assert await line_of(home, "Work mainly in Python") == f"from the description: {CODING}"
    assert await line_of(home, "- They program for a living", "USER.md") == (
        "asked: How well do you know programming? Answered: Well"
    )
    assert await line_of(home, "- precise") == "default for bots of this kind"
    lines = home.path("ada/SOUL.md").read_text().split("\n")
    assert (await home.assembler.explain("ada", f"SOUL.md:{lines.index('') + 1}")).sentence == "empty line"
    assert await line_of(home, "- Never print secrets") == (
        "asked: Which rules must it keep to? Answered: Never print secrets"
    )
    model = "asked: Which model should answer? Answered: ollama:llama3.2"
    assert await line_of(home, "model: ", "IDENTITY.md") == model
    assert await line_of(home, "provider: ", "IDENTITY.md") == model
    assert await line_of(home, "temperature: ", "IDENTITY.md") == "default for bots of this kind"
    assert (await line_of(home, "[code-review]", "skills.toml")).startswith("asked: Which skills should it have?")


async def test_a_line_is_still_explained_after_edits_and_changes(home: Home) -> None:
    await home.build()
    home.edit("ada/SOUL.md", "## Purpose\n", "## Purpose\n\nAlso water the plants.\n")
    assert await line_of(home, "water the plants") == "edited by hand"
    assert await line_of(home, "- Never print secrets") == (
        "asked: Which rules must it keep to? Answered: Never print secrets"
    )
    await home.change("ada", tone="formal")
    assert await line_of(home, "water the plants") == "edited by hand"
    assert await line_of(home, "tone: formal") == "asked: How should it speak? Answered: formal"
    assert await line_of(home, "- Never print secrets") == (
        "asked: Which rules must it keep to? Answered: Never print secrets"
    )
    assert await line_of(home, "- precise") == "default for bots of this kind"


async def test_a_suggestion_that_was_taken_is_distinguished_from_an_answer(home: Home) -> None:
    past = PastChoice(category="coding", tone="technical", model="ollama:llama3.2", skills=("code-review",))
    here = HERE.model_copy(update={"past": (past,)})
    await home.assembler.assemble(ready(CODING, "s", here))
    assert await line_of(home, "tone: technical") == "asked: How should it speak? Answered, as suggested: Technical"


async def test_what_was_changed_at_the_end_is_said_to_be(home: Home) -> None:
    config = config_of_ready()
    edited = config.model_copy(update={"personality": config.personality.model_copy(update={"tone": "wry"})})
    await home.assembler.assemble(ready(), edited)
    assert await line_of(home, "tone: wry") == "changed when the bot was confirmed"


@pytest.mark.parametrize("place", ["SOUL.md", "SOUL.md:0", "SOUL.md:999", "SOUL.md:x", "../x:1", "/etc/passwd:1", ":1"])
async def test_a_place_that_is_none_is_refused(home: Home, place: str) -> None:
    await home.build()
    with pytest.raises(Invalid):
        await home.assembler.explain("ada", place)


async def test_a_bot_goes_through_one_file_into_another_home(home: Home, tmp_path: Path) -> None:
    await home.build()
    home.edit("ada/SOUL.md", "tone: technical", "tone: warm")
    data = await home.assembler.export_bot("ada")
    assert data == await home.assembler.export_bot("ada")
    (tmp_path / "ada.zip").write_bytes(data)
    (tmp_path / "other").mkdir()
    other = home_in(tmp_path / "other")
    results = [await other.assembler.import_bot(read_archive(tmp_path / "ada.zip")) for _ in range(2)]
    assert [result.bot_slug for result in results] == ["ada", "ada-2"]
    assert (await other.store.version("ada")).origin == "import"
    ours, theirs = await home.assembler.open_bot("ada"), await other.assembler.open_bot("ada")
    assert ours == theirs
    result = await other.change("ada", tone="formal")
    assert result.version == 2
    assert (await other.assembler.open_bot("ada")).soul.tone == "formal"


async def test_an_archive_whose_config_is_not_right_is_refused(home: Home) -> None:
    await home.build()
    packed = unpack_bot(await home.assembler.export_bot("ada"), "ada.zip")
    packed.config["name"] = 7  # type: ignore[index]
    with pytest.raises(Invalid, match="archive of ada"):
        await home.assembler.import_bot(packed)
    assert zipfile.is_zipfile(io.BytesIO(await home.assembler.export_bot("ada")))


async def test_an_edit_between_the_making_and_the_writing_of_a_version_is_not_lost(home: Home) -> None:
    await home.build()
    home.edit("ada/SOUL.md", "## Purpose\n", "## Purpose\n\nFirst edit.\n")
    state = await home.changing("ada", tone="formal")

    def edit() -> None:
        home.edit("ada/SOUL.md", "## Boundaries\n", "## Boundaries\n\n- Second edit.\n")

    with failpoints.armed("forge.version.after", edit):
        await home.assembler.assemble(state)
    soul = home.path("ada/SOUL.md").read_text()
    assert "First edit." in soul
    assert "Second edit." in soul
    assert "tone: formal" in soul
    assert list(await home.assembler.edits("ada")) == ["SOUL.md"]


def test_sessions_of_these_tests_differ() -> None:
    assert new_session() != new_session()


SPANISH = "help me learn Spanish before my trip in May, I am a beginner, and call it Ada"


async def test_another_purpose_drops_what_the_old_one_implied(home: Home) -> None:
    await home.build(SPANISH)
    said = {"purpose": "study", "wish": "quiz me on French history for my exam in June", "study.level": "a lot"}
    state = await home.changing("ada", **said)
    asked = [exchange.slot for exchange in state.conversation]
    assert set(asked) == {"changes", "wish", "purpose", "name", "study.level"}
    await home.assembler.assemble(state)
    user, soul = home.path("ada/USER.md").read_text(), home.path("ada/SOUL.md").read_text()
    assert "begin from nothing" not in user
    assert "Teach by short quizzes" in soul
    assert "Teach by questions" not in soul
    assert await line_of(home, "Teach by short quizzes") == (
        "asked: What should it do from now on? Answered: quiz me on French history for my exam in June"
    )


@pytest.mark.parametrize(("given", "is_kept"), [("", False), (", call it Ada", True)])
async def test_another_purpose_proposes_another_name(home: Home, given: str, is_kept: bool) -> None:
    slug = (await home.build(f"help me learn Spanish{given}")).bot_slug
    state = start_reconfiguration("r", "", HERE, await home.assembler.target(slug))
    for text in ("purpose", "plan my trips to Italy", "travel"):
        state = apply_answer(state, FreeText(free_text=text))
    turn = state.pending_turn
    assert isinstance(turn, AskQuestion)
    assert state.pending_slot == "name"
    kept = "Keep Ada" if is_kept else "Keep Spanish Tutor"
    assert [option.label for option in turn.options[:2]] == [kept, "Italy Planner"]
    assert turn.suggestion is not None
    assert turn.suggestion.option_id == ("keep" if is_kept else "italy-planner")


async def test_an_edited_answer_is_written(home: Home) -> None:
    config = config_of_ready()
    answers = {**config.answers, "task": "Never touch the tests.", "level": "They are a pilot."}
    await home.assembler.assemble(ready(), config.model_copy(update={"answers": answers}))
    soul = home.path("ada/SOUL.md").read_text()
    assert "Never touch the tests." in soul
    assert config.answers["task"] not in soul
    assert "- They are a pilot." in home.path("ada/USER.md").read_text()
    assert await line_of(home, "Never touch the tests.") == "changed when the bot was confirmed"


async def test_an_edited_answer_to_no_question_is_refused(home: Home) -> None:
    config = config_of_ready()
    edited = config.model_copy(update={"answers": {**config.answers, "limits": "No peanuts."}})
    with pytest.raises(Invalid, match=r"answers\.limits is not one of language, task, level"):
        await home.assembler.assemble(ready(), edited)
