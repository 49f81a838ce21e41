"""Questions of the model: which one answers, its temperature, and the length of an answer."""

import re

from perdure.errors import Invalid
from perdure.forge.categories import DEFAULTS
from perdure.forge.choices import similar_choices, suggest_most_chosen
from perdure.forge.questions.slot import Fields, Question, Slot, option
from perdure.forge.state import BuilderState
from perdure.forge.vocabulary import BuilderPhase

BUILT_IN = "builtin"
_MODEL = re.compile(r"[a-z][a-z0-9-]{0,40}:\S{1,150}")
_SHORT, _LONG = 1024, 8192
_COOLER, _WARMER = -0.2, 0.2


def _model_question(state: BuilderState) -> Question:
    here = state.context.models
    past = [each.model for each in similar_choices(state) if each.model not in (*here, BUILT_IN)]
    options = [
        *(option(name, name, "found on this machine") for name in here),
        *(option(name, name, "used by an earlier bot; not found on this machine") for name in dict.fromkeys(past)),
        option(BUILT_IN, BUILT_IN, _builtin_reason(state.context.default_model)),
    ]
    return Question(
        "Which model should answer? (Other: provider:name)",
        options,
        suggest_most_chosen(state, lambda past: past.model, "uses", str),
    )


def _builtin_reason(default: str | None) -> str:
    if default is None:
        return "the default model, as soon as you connect one: perdure model login"
    return f"the default model, which is now {default}"


def _read_model(_state: BuilderState, text: str) -> Fields:
    if text != BUILT_IN and not _MODEL.fullmatch(text):
        raise Invalid(
            f"{text[:60]!r} is not a model. Expected provider:name, such as ollama:llama3.2 or openai:gpt-4.1-mini,"
            f" or {BUILT_IN}."
        )
    return {"model": text}


def _variety_question(state: BuilderState) -> Question:
    usual = DEFAULTS[state.kind].temperature
    return Question(
        "How free should its answers be? (Other: a temperature from 0 to 2)",
        [
            option("usual", "As usual", f"temperature {usual:g}, the default for bots of this kind"),
            option("strict", "Strict", f"temperature {_shifted(usual, _COOLER):g}: the same question, the same answer"),
            option("free", "Free", f"temperature {_shifted(usual, _WARMER):g}: more surprises, good and bad"),
        ],
    )


def _chosen_variety(state: BuilderState, chosen: str) -> Fields:
    usual = DEFAULTS[state.kind].temperature
    return {"temperature": _shifted(usual, {"usual": 0.0, "strict": _COOLER, "free": _WARMER}[chosen])}


def _shifted(temperature: float, by: float) -> float:
    return round(min(max(temperature + by, 0.0), 2.0), 2)


def _read_variety(_state: BuilderState, text: str) -> Fields:
    try:
        temperature = float(text)
    except ValueError:
        temperature = -1.0
    if not 0 <= temperature <= 2:
        raise Invalid(f"{text[:60]!r} is not a temperature. Expected a number from 0 to 2.")
    return {"temperature": temperature}


def _length_question(state: BuilderState) -> Question:
    usual = DEFAULTS[state.kind].max_tokens
    return Question(
        "How long may an answer be? (Other: a number of tokens)",
        [
            option("usual", "As usual", f"up to {usual} tokens, about {usual * 3 // 4} words"),
            option("short", "Short", f"up to {_SHORT} tokens, a page or so"),
            option("long", "Long", f"up to {_LONG} tokens, for reports"),
        ],
    )


def _chosen_length(state: BuilderState, chosen: str) -> Fields:
    usual = DEFAULTS[state.kind].max_tokens
    return {"max_tokens": {"usual": usual, "short": _SHORT, "long": _LONG}[chosen]}


def _read_length(_state: BuilderState, text: str) -> Fields:
    digits = text.replace(",", "").replace("_", "")
    if not (digits.isascii() and digits.isdigit() and 1 <= int(digits[:9]) <= 1_000_000 and len(digits) < 8):
        raise Invalid(f"{text[:60]!r} is not a number of tokens. Expected 1 to 1,000,000.")
    return {"max_tokens": int(digits)}


MODEL = Slot(
    "model",
    BuilderPhase.MODEL,
    ("model",),
    ask=_model_question,
    choose=lambda _state, chosen: {"model": chosen},
    read=_read_model,
    help="The model answers for the bot. With builtin, that is the default model, whichever is configured at the time.",
)
VARIETY = Slot(
    "variety",
    BuilderPhase.MODEL,
    ("temperature",),
    ask=_variety_question,
    choose=_chosen_variety,
    read=_read_variety,
    help="A low temperature makes answers more alike; a high one makes them more varied.",
)
LENGTH = Slot(
    "length",
    BuilderPhase.MODEL,
    ("max_tokens",),
    ask=_length_question,
    choose=_chosen_length,
    read=_read_length,
    help="An answer is cut off after this many tokens; a token is about three quarters of a word.",
)
