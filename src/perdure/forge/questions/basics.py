"""Questions of the basics: the purpose and the name."""

from perdure.errors import Invalid
from perdure.forge.categories import guess_purpose, words_of
from perdure.forge.config import LONGEST_CATEGORY
from perdure.forge.questions.names import explicit_name, proposed_names
from perdure.forge.questions.slot import Fields, Question, Slot, option
from perdure.forge.state import BuilderState
from perdure.forge.turns import Suggestion
from perdure.forge.vocabulary import BotPurpose, BuilderPhase, PurposeCategory

_PURPOSES = (
    option("coding", "Coding", "reads, writes and reviews code"),
    option("writing", "Writing", "stories, posts, letters, and ideas for them"),
    option("research", "Research", "finds sources, reads them and reports what they say"),
    option("data", "Data", "takes figures apart and explains what follows from them"),
    option("study", "Studying", "teaches, quizzes and explains"),
    option("customer_service", "Customer service", "answers your customers"),
    option("personal_assistant", "Everyday tasks", "timers, reminders, lists, conversions"),
    option("household", "Family and household", "meals, chores, children, plants"),
    option("travel", "Travel", "plans trips and finds the way"),
    option("health", "Health habits", "moving, sleeping, eating, one small step at a time"),
    option("on_call", "On-call", "alerts, incidents and runbooks"),
    option("games", "Games", "plays, or leads a game"),
    option("other", "Something else", "a custom purpose: nothing is assumed"),
)


def _purpose_question(state: BuilderState) -> Question:
    guess = guess_purpose(state.about)
    if state.target is None and guess.purpose is BotPurpose.OTHER:
        suggestion = Suggestion(option_id="other", reason="your description sounds like none of the others")
    else:
        suggestion = Suggestion(option_id=str(guess.purpose), reason="your description sounds like it")
    return Question("What is it for?", _PURPOSES, suggestion)


def _chosen_purpose(_state: BuilderState, chosen: str) -> Fields:
    purpose = BotPurpose(chosen)
    return {"purpose": purpose, "category": str(purpose.category)}


def _read_purpose(state: BuilderState, text: str) -> Fields:
    """Return the purpose that a text names; any other text is a custom purpose."""
    said = " ".join(words_of(text))
    for each in _PURPOSES:
        if said in (" ".join(words_of(each.label)), each.id.replace("_", " ")):
            return _chosen_purpose(state, each.id)
    if len(text) > LONGEST_CATEGORY:
        raise Invalid(f"A purpose has at most {LONGEST_CATEGORY} characters. Say it in two or three words.")
    return {"purpose": BotPurpose.OTHER, "category": text}


def _purpose_from_description(state: BuilderState) -> Fields:
    guess = guess_purpose(state.description)
    return _chosen_purpose(state, str(guess.purpose)) if guess.is_clear else {}


def _name_question(state: BuilderState) -> Question:
    names = _names(state)
    return Question("What should it be called?", [option(_slot_id(name), name, why) for name, why in names])


def _names(state: BuilderState) -> list[tuple[str, str]]:
    return proposed_names(state.about, state.purpose)


def _slot_id(name: str) -> str:
    return "-".join(words_of(name)) or "name"


def _chosen_name(state: BuilderState, chosen: str) -> Fields:
    [name] = [name for name, _ in _names(state) if _slot_id(name) == chosen]
    return {"name": name}


def _name_from_description(state: BuilderState) -> Fields:
    name = explicit_name(state.description)
    return {} if name is None else {"name": name}


PURPOSE = Slot(
    "purpose",
    BuilderPhase.BASICS,
    ("purpose", "category"),
    ask=_purpose_question,
    choose=_chosen_purpose,
    read=_read_purpose,
    from_description=_purpose_from_description,
    help="The purpose decides which questions follow, and which tone, model settings and skills are proposed.",
)
NAME = Slot(
    "name",
    BuilderPhase.BASICS,
    ("name",),
    ask=_name_question,
    choose=_chosen_name,
    read=lambda _state, text: {"name": text},
    from_description=_name_from_description,
    help="The bot introduces itself by this name; its folder is named after it. Any one line of text is a name.",
)


def _retired_slot(field: str) -> Slot:
    """Return the slot of a question of earlier versions; the draft has the texts of its options."""

    def choose(state: BuilderState, chosen: str) -> Fields:
        options = getattr(state.pending_turn, "options", ())
        [text] = [f"{each.label}: {each.description}" for each in options if each.id == chosen]
        return {field: text}

    return Slot(
        field,
        BuilderPhase.BASICS,
        (field,),
        ask=lambda _state: Question("", ()),
        choose=choose,
        read=lambda _state, text: {field: text},
    )


CATEGORY = Slot(
    "category",
    BuilderPhase.BASICS,
    ("category", "purpose"),
    ask=lambda _state: Question("", ()),
    choose=lambda _state, chosen: {"category": chosen, "purpose": BotPurpose.of_category(PurposeCategory(chosen))},
    read=_read_purpose,
)
RETIRED: tuple[Slot, ...] = (CATEGORY, *map(_retired_slot, ("focus", "audience", "output")))
"""Questions of earlier versions; a draft may still have one pending."""
