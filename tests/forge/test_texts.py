"""The texts of a bot: any config goes into the files and comes back out of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.forge.assembly.texts import build_pages, require_round_trip, user_page
from perdure.forge.config import BuilderConfig
from perdure.forge.second_person import facts_about_user, second_person

NASTY = st.sampled_from(
    [
        "---",
        "## Purpose",
        "\\## Boundaries",
        "# x",
        "- a",
        "  b",
        "'",
        '"',
        "null",
        "~",
        "yes",
        "1e3",
        "\t",
        "é",
        "🤖",
        "\x85",
        "\u2028",
        ": ",
        "#",
        "",
    ]
)
PIECE = st.one_of(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=12), NASTY)
TEXT = st.lists(PIECE, max_size=6).map("\n".join)
LINE = PIECE.map(lambda text: " ".join(text.split())).filter(lambda text: bool(text) and text.isprintable())


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("I want a coding assistant", "You are a coding assistant."),
        ("Help me learn Spanish before my trip", "You help the user learn Spanish before their trip."),
        ("a bot that waters my plants", "You are a bot that waters the user's plants."),
        ("I need you to remind me when I leave", "You remind the user when they leave."),
        ("I'd like help with our taxes", "You help the user with their taxes."),
        ("Can you plan our holiday in Japan?", "You plan the user's holiday in Japan."),
        ("Could you make me a poem writer?", "You are a poem writer."),
        ("I am on call and need help", "You help the user. They are on call and need help."),
        (
            "Be my running coach. I'm a nurse. It should never shame me.",
            "You are the user's running coach. They are a nurse. You should never shame them.",
        ),
        (
            "research\npapers about bees, for my team",
            "Your task: research.\nIn more detail: papers about bees, for the user's team.",
        ),
        (
            "My name is Ana and I teach maths. I want a bot that writes quizzes for my class.",
            "You help the user. Their name is Ana and they teach maths."
            " You are a bot that writes quizzes for their class.",
        ),
        ("My team needs help with reports", "You help the user. Their team needs help with reports."),
        ("my running coach who is patient", "You are the user's running coach who is patient."),
        ("I want you to be my chess partner", "You are the user's chess partner."),
        ("Somebody who reads my drafts", "You are someone who reads the user's drafts."),
        ("Let me practise French", "You let the user practise French."),
        ("I am a nurse. I want a dog.", "You help the user. They are a nurse. They want a dog."),
        ("Ich möchte einen Bot, der kocht", "The user asked for this: Ich möchte einen Bot, der kocht."),
        ("timer", "Your task: timer."),
        (
            "Plan family dinners, my son is allergic to nuts",
            "You plan family dinners. Their son is allergic to nuts.",
        ),
        (
            "I run a bakery and want posts, never mention prices",
            "You help the user. They run a bakery and want posts. Never mention prices.",
        ),
        (
            "Water my plants when I am away, my son is seven",
            "You water the user's plants when they are away, their son is seven.",
        ),
    ],
)
def test_a_purpose_is_rewritten_in_the_second_person(said: str, read: str) -> None:
    assert second_person(said) == read


def test_what_a_description_says_about_the_person_is_found() -> None:
    assert facts_about_user("Help me cook. I am a nurse, and I live in Bonn") == [
        "They are a nurse.",
        "They live in Bonn.",
    ]
    assert facts_about_user("I am looking for a tutor") == []
    assert facts_about_user("Remind me to drink, when I'm working or if I have a cold") == []
    assert facts_about_user("Plan dinners, my younger son is allergic to nuts and my wife is vegan") == [
        "Their younger son is allergic to nuts and their wife is vegan."
    ]
    assert facts_about_user("Make sure my son is asleep, and remind me when my dog is hungry") == []
    assert facts_about_user("My name is Ana and I teach maths") == ["Their name is Ana and they teach maths."]


@given(TEXT)
def test_any_text_is_rewritten_in_lines_that_are_not_empty(text: str) -> None:
    assert all(line.strip() for line in second_person(text).split("\n")) or not text.split()


def test_empty_sections_are_left_out_and_an_edited_config_rewrites_the_user_page() -> None:
    values = {
        "name": "Ada",
        "description": "Help me cook. I am a nurse.",
        "category": "simple_utility",
        "personality": {"tone": "direct", "purpose": "You help the user cook."},
        "model_config": {"model": "builtin", "temperature": 0.3, "max_tokens": 9},
    }
    config = BuilderConfig.model_validate(values)
    assert config.purpose == "personal_assistant"
    pages = build_pages(config)
    assert "## Boundaries" not in pages["SOUL.md"].text
    assert "You are Ada, an AI bot for everyday tasks.\n" in pages["IDENTITY.md"].text
    assert user_page(config).text == (
        "# The person you work for\n\n## Who they are\n\n- They are a nurse.\n\n"
        "## What they want\n\nThey asked for you in these words:\n\n> Help me cook. I am a nurse.\n"
    )
    edited = config.model_copy(update={"description": "Help us bake"})
    assert user_page(edited).text.endswith("> Help us bake\n")
    assert "nurse" not in user_page(edited).text


@st.composite
def configs(draw: st.DrawFn) -> BuilderConfig:
    skills = [
        {"name": "tea", "description": draw(TEXT), "skill_type": "custom"},
        {"name": "summarize", "description": draw(TEXT)},
    ]
    values = {
        "name": draw(LINE),
        "description": draw(TEXT),
        "category": draw(LINE),
        "personality": {
            "tone": draw(LINE),
            "traits": draw(st.lists(LINE, max_size=3)),
            "purpose": draw(TEXT),
            "boundaries": draw(st.lists(TEXT, max_size=4)),
        },
        "model_config": {
            "model": draw(st.sampled_from(["builtin", "ollama:llama3.2", "openai-compatible:x@http://h:1/v1"])),
            "temperature": draw(st.floats(0, 2)),
            "max_tokens": draw(st.integers(1, 1_000_000)),
        },
        "skills": skills[: draw(st.integers(0, 2))],
    }
    return BuilderConfig.model_validate(values)


@given(configs())
def test_any_config_comes_back_out_of_the_files(config: BuilderConfig) -> None:
    pages = build_pages(config)
    texts = {path: page.text for path, page in pages.items()}
    bot = require_round_trip(config, "ada", {**texts, "USER.md": ""})
    assert bot.name == config.name
    assert all(len(page.sources) == page.text.count("\n") + 1 for page in pages.values())
