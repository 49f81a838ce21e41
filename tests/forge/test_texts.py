"""The texts of a bot: any config goes into the files and comes back out of them."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.forge.config import BuilderConfig
from perdure.forge.texts import build_pages, require_same

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
    bot = require_same(config, "ada", {**texts, "USER.md": ""})
    assert bot.name == config.name
    assert all(len(page.sources) == page.text.count("\n") + 1 for page in pages.values())
