"""The basics: what kind of bot it is, what it is called, what it is about, and for whom."""

from perdure.errors import Invalid
from perdure.forge.categories import purpose_of, words_of
from perdure.forge.config import LONGEST_CATEGORY
from perdure.forge.questions.names import given_name, proposed_names
from perdure.forge.questions.slot import Fields, Question, Slot, option
from perdure.forge.state import BuilderState
from perdure.forge.turns import Option, Suggestion
from perdure.forge.vocabulary import BuilderPhase, PurposeCategory

_KINDS = (
    option("simple_utility", "A simple utility", "does one small thing well: timers, reminders, conversions"),
    option("coding", "A coding assistant", "reads, writes and reviews code"),
    option("research", "A researcher", "finds sources, reads them and tells what they say"),
    option("complex_analyst", "An analyst", "takes data apart and explains what follows from it"),
    option("creative", "A creative partner", "writes, imagines and plays with ideas"),
    option("customer_service", "A customer service agent", "answers people who need help, patiently"),
)

Focus = tuple[str, tuple[tuple[str, str, str, str], ...]]
"""A question, and for each answer its id, label, reason and the words that give it away."""

_FOCUS: dict[PurposeCategory, Focus] = {
    PurposeCategory.SIMPLE_UTILITY: (
        "What will it be used for most?",
        (
            ("time", "Time", "timers, alarms and reminders", "timer alarm reminder countdown"),
            ("lists", "Lists and notes", "keeps what you must not forget", "list lists notes todo"),
            ("figures", "Figures", "converts and calculates", "convert calculate units"),
        ),
    ),
    PurposeCategory.CODING: (
        "Which language does it work with most?",
        (
            ("python", "Python", "types, tests and packaging the Python way", "python django pandas"),
            ("typescript", "TypeScript or JavaScript", "browsers and Node.js", "typescript javascript node react"),
            ("systems", "Rust, Go, C or C++", "close to the machine; memory and concurrency matter", "rust golang"),
            ("any", "Whatever the project uses", "reads the project first and follows its habits", "polyglot"),
        ),
    ),
    PurposeCategory.CREATIVE: (
        "What does it make?",
        (
            ("fiction", "Stories", "characters, scenes and plots", "story stories novel fiction screenplay"),
            ("verse", "Poems and lyrics", "rhythm, rhyme and image", "poem poems poetry lyrics song songs"),
            ("copy", "Texts for a brand", "slogans, posts and product texts", "slogan slogans copywriter blog"),
            ("ideas", "Ideas", "many first, good ones later", "brainstorm brainstorming ideas"),
        ),
    ),
    PurposeCategory.RESEARCH: (
        "Which field does it work in?",
        (
            ("science", "Science and medicine", "papers, methods and how sure one can be", "science medicine climate"),
            ("technology", "Technology", "documentation, standards and releases", "technology software computing"),
            ("business", "Markets and companies", "filings, news and figures", "market markets business companies"),
            ("society", "History and society", "several sides of one question", "history politics society law"),
        ),
    ),
    PurposeCategory.COMPLEX_ANALYST: (
        "What does it analyse?",
        (
            ("money", "Money", "budgets, prices and risks", "financial finance portfolio budget risk stocks"),
            ("product", "A product", "how people use it, and why they leave", "product usage churn funnel"),
            ("operations", "Operations", "what is slow, dear or breaks", "operations logs incidents costs"),
            ("tables", "Any table that it is given", "finds the shape of the data first", "spreadsheet csv table"),
        ),
    ),
    PurposeCategory.CUSTOMER_SERVICE: (
        "What do people come to it with?",
        (
            (
                "orders",
                "Orders and refunds",
                "looks things up and explains what happens next",
                "order orders refund refunds delivery",
            ),
            ("howto", "How to use the product", "leads step by step", "tutorial onboarding faq"),
            (
                "trouble",
                "Trouble",
                "listens, narrows it down, hands over in time",
                "complaint complaints ticket tickets",
            ),
        ),
    ),
    PurposeCategory.CUSTOM: (
        "What matters most in what it does?",
        (
            ("advice", "Good advice", "asks back, weighs, recommends", "advice coach advisor mentor"),
            ("doing", "Getting things done", "acts first and reports after", "automate organise organize"),
            ("company", "Good company", "a conversation worth having", "friend companion talk chat"),
        ),
    ),
}


def _category_question(state: BuilderState) -> Question:
    found = purpose_of(state.description)
    best = next((each for each in _KINDS if each.id == found.category), None)
    suggestion = None if best is None else Suggestion(option_id=best.id, reason="your description sounds like it")
    return Question("What kind of bot will it be?", _KINDS, suggestion)


def _custom_category(_state: BuilderState, text: str) -> Fields:
    if len(text) > LONGEST_CATEGORY:
        raise Invalid(f"A category has at most {LONGEST_CATEGORY} characters. Say it in two or three words.")
    return {"category": text}


def _told_category(state: BuilderState) -> Fields:
    found = purpose_of(state.description)
    return {"category": str(found.category)} if found.is_clear else {}


def _name_question(state: BuilderState) -> Question:
    names = _names(state)
    return Question("What should it be called?", [option(_slot_id(name), name, why) for name, why in names])


def _names(state: BuilderState) -> list[tuple[str, str]]:
    """Propose names; those of a bot that is there are about that bot, whatever is to change."""
    about = state.description if state.target is None else str(state.target.config.get("description") or "")
    return proposed_names(about, state.kind)


def _slot_id(name: str) -> str:
    return "-".join(words_of(name)) or "name"


def _chosen_name(state: BuilderState, chosen: str) -> Fields:
    [name] = [name for name, _ in _names(state) if _slot_id(name) == chosen]
    return {"name": name}


def _told_name(state: BuilderState) -> Fields:
    name = given_name(state.description)
    return {} if name is None else {"name": name}


def _focus_question(state: BuilderState) -> Question:
    text, answers = _FOCUS[state.kind]
    return Question(text, [option(id_, label, why) for id_, label, why, _ in answers])


def _chosen_focus(state: BuilderState, chosen: str) -> Fields:
    [(label, why)] = [(label, why) for id_, label, why, _ in _FOCUS[state.kind][1] if id_ == chosen]
    return {"focus": f"{label}: {why}"}


def _told_focus(state: BuilderState) -> Fields:
    said = set(words_of(state.description))
    found = [id_ for id_, _, _, words in _FOCUS[state.kind][1] if said & set(words.split())]
    return _chosen_focus(state, found[0]) if len(found) == 1 else {}


_AUDIENCES: tuple[Option, ...] = (
    option("me", "Me", "knows the subject; no need to explain the basics"),
    option("team", "My team", "shared background, little time"),
    option("managers", "People who decide", "the result first, the way to it on request"),
    option("public", "Anybody", "plain words, every term explained"),
)
_OUTPUTS: tuple[Option, ...] = (
    option("brief", "A short brief", "half a page: result, reasons, doubts"),
    option("report", "A full report", "sections, sources, method, what is not known"),
    option("table", "A table", "options side by side, one line each"),
    option("conversation", "A conversation", "step by step, with questions back"),
)


def _label_of(options: tuple[Option, ...], chosen: str) -> str:
    [text] = [f"{each.label}: {each.description}" for each in options if each.id == chosen]
    return text


CATEGORY = Slot(
    "category",
    BuilderPhase.BASICS,
    ("category",),
    ask=_category_question,
    choose=lambda _state, chosen: {"category": chosen},
    read=_custom_category,
    told=_told_category,
)
NAME = Slot(
    "name",
    BuilderPhase.BASICS,
    ("name",),
    ask=_name_question,
    choose=_chosen_name,
    read=lambda _state, text: {"name": text},
    told=_told_name,
)
FOCUS = Slot(
    "focus",
    BuilderPhase.BASICS,
    ("focus",),
    ask=_focus_question,
    choose=_chosen_focus,
    read=lambda _state, text: {"focus": text},
    told=_told_focus,
)
AUDIENCE = Slot(
    "audience",
    BuilderPhase.BASICS,
    ("audience",),
    ask=lambda _state: Question("Who reads what it finds?", _AUDIENCES),
    choose=lambda _state, chosen: {"audience": _label_of(_AUDIENCES, chosen)},
    read=lambda _state, text: {"audience": text},
)
OUTPUT = Slot(
    "output",
    BuilderPhase.BASICS,
    ("output",),
    ask=lambda _state: Question("What should an answer look like?", _OUTPUTS),
    choose=lambda _state, chosen: {"output": _label_of(_OUTPUTS, chosen)},
    read=lambda _state, text: {"output": text},
)
