"""Proposes names for a bot from its description."""

import re
import zlib

from perdure.forge.categories import significant_words, topics, words_of
from perdure.forge.vocabulary import BotPurpose

_EXPLICIT_NAME = re.compile(
    r"""\b(?:called|named|call\ it|name\ it|name\ is)\s+
        (?:["“'](?P<quoted>[^"”'\n]{1,60})["”'] | (?P<plain>[A-Z][\w-]{0,30}(?:\ [A-Z][\w-]{0,30}){0,2}))""",
    re.VERBOSE,
)
_INNER_WORD = re.compile(r"(?<=[\w,;:]\s)[^\W\d_]+")
"""A word inside a sentence; a capital letter there marks a name, and in German any noun."""
_CLAUSE = re.compile(r"\b(?:that|which|who|whose|so|to|when|before|because|every|each)\b|[.;:!?,]", re.IGNORECASE)
"""Separates what a bot is from what it does."""
_TOPIC_PHRASE = re.compile(
    r"\b(?:for|about|of|on|with|in|my|our|the)\s+(?:(?:my|our|the|a|an|his|her|their|its)\s+)?(?P<topic>[^\W\d_]{3,30})\b",
    re.IGNORECASE,
)
"""A noun after a preposition or a possessive."""
_EXCLUDED_NOUN = re.compile(r"\b(?:without|except)\s+(?:(?:any|my|our|the|a|an)\s+)?\w+", re.IGNORECASE)
"""A noun that the description excludes."""
_KNOWN_NOUN_PHRASE = re.compile(
    r"\b(?:an?|my|the|one)\s+(?P<thing>(?:[^\W\d_]+\s+){1,2}?(?:assistant|bot|timer|coach|tutor|planner|reviewer|writer"
    r"|analyst|researcher|reminder|guide|trainer|translator|converter|calculator|editor|helper|teacher|partner|master"
    r"|agent|keeper|tracker|cook|storyteller|poet|librarian|advisor|mentor|desk))\b",
    re.IGNORECASE,
)
"""A description of the bot that ends with a known noun: "a pomodoro timer"."""
_LINKS = "that|which|who|for|about|with|to|in|of|on"
_NOUN = rf"(?!(?:{_LINKS}|our|my|the|an?)\b)[^\W\d_]+"
"""A word that can be part of such a description; "timer for pasta" is not a name."""
_OTHER_NOUN_PHRASE = re.compile(
    rf"(?:i\s+(?:want|need|would\s+like)\s+)?(?:an?|my)\s+(?P<thing>(?:{_NOUN}\s+){{1,2}}{_NOUN})"
    rf"(?=\s*(?:$|[.,;:!?\n]|\b(?:{_LINKS})\b))",
    re.IGNORECASE,
)
"""The same with an unknown noun: "a bird watching friend"."""
_FILLERS_TEXT = (
    "call calls collection"
    " every each day days week weeks month months year years always never often little big large small friendly"
    " formal playful direct technical simple quick good great best better new old own want need please smart"
    " personal really team teams people user users everyone family me i we how what when where lot lots bit night"
    " nights morning evening home time times life way ways first next last same different many much few helps"
    " review reviews group code base codebase customer customers client clients question questions answer answers"
    " thing things request requests pull january february march april may june july august september october"
    " november december monday tuesday wednesday thursday friday saturday sunday today tomorrow house work job"
    " help cover write writes play learn better assistant bot agent timer coach tutor analyst researcher writer"
    " planner guide one two three four five friend friends daughter son children kids wife husband mother father mum"
    " mom dad parents partner boss master track keep lose plan make find tell explain"
    " his her hers him their theirs while during until through against between around after before without within"
    " nice nicer long longer fast faster quit stop start begin get getting second company support"
)
_FILLERS = frozenset(_FILLERS_TEXT.split())
_SHORTEST_PLURAL = 3
_NO_PLURALS = frozenset(["news", "sales", "sports", "series", "species", "savings", "lens"])
"""Words that end like a plural and have no singular, or mean something else in it; so do those in "ics", as physics."""
_SINGULARS_IN_IE = frozenset(["movies", "cookies", "calories", "zombies"])
_ROOT = 3
"""Number of letters that words of one root have in common."""
_LONGEST_WORD = 30
"""Longer words are not used in a name."""
_ROLES: dict[BotPurpose, tuple[tuple[str, str], ...]] = {
    BotPurpose.CODING: (
        ("review reviews reviewer", "Reviewer"),
        ("debug bug bugs debugging", "Debugger"),
        ("", "Engineer"),
    ),
    BotPurpose.WRITING: (
        ("story stories novel fiction storyteller", "Storyteller"),
        ("poem poems poetry lyrics song songs", "Poet"),
        ("edit editor proofread", "Editor"),
        ("", "Writer"),
    ),
    BotPurpose.RESEARCH: (("", "Researcher"),),
    BotPurpose.DATA: (("", "Analyst"),),
    BotPurpose.STUDY: (("", "Tutor"),),
    BotPurpose.CUSTOMER_SERVICE: (("", "Desk"),),
    BotPurpose.PERSONAL_ASSISTANT: (
        ("timer timers countdown stopwatch alarm", "Timer"),
        ("remind reminds reminder reminders", "Reminder"),
        ("translate translator", "Translator"),
        ("convert converter", "Converter"),
        ("", "Assistant"),
    ),
    BotPurpose.HOUSEHOLD: (
        ("plan plans planning planner", "Planner"),
        ("cook cooking cooks recipe recipes meal meals dinner", "Cook"),
        ("shopping groceries grocery", "Shopper"),
        ("plants garden gardening", "Gardener"),
        ("", "Helper"),
    ),
    BotPurpose.TRAVEL: (("plan plans planning planner", "Planner"), ("", "Guide")),
    BotPurpose.HEALTH: (("", "Coach"),),
    BotPurpose.ON_CALL: (("", "Responder"),),
    BotPurpose.GAMES: (
        ("rpg dungeon dungeons dnd campaign roleplay", "Game Master"),
        ("quiz trivia", "Quizmaster"),
        ("", "Partner"),
    ),
    BotPurpose.OTHER: (("", "Helper"),),
}
_SHORT: dict[BotPurpose, tuple[str, ...]] = {
    BotPurpose.CODING: ("Patch", "Anvil", "Lint", "Rivet"),
    BotPurpose.WRITING: ("Quill", "Fable", "Ember", "Verse"),
    BotPurpose.RESEARCH: ("Folio", "Atlas", "Margin", "Almanac"),
    BotPurpose.DATA: ("Prism", "Ledger", "Tally", "Plumb"),
    BotPurpose.STUDY: ("Chalk", "Slate", "Primer", "Socrates"),
    BotPurpose.CUSTOMER_SERVICE: ("Harbour", "Concierge", "Welcome", "Beacon"),
    BotPurpose.PERSONAL_ASSISTANT: ("Tick", "Nudge", "Pip", "Dot"),
    BotPurpose.HOUSEHOLD: ("Hearth", "Pantry", "Basil", "Clover"),
    BotPurpose.TRAVEL: ("Compass", "Meridian", "Satchel", "Polo"),
    BotPurpose.HEALTH: ("Stride", "Steady", "Spring", "Vita"),
    BotPurpose.ON_CALL: ("Sentinel", "Watch", "Siren", "Beacon"),
    BotPurpose.GAMES: ("Rook", "Joker", "Quest", "Dice"),
    BotPurpose.OTHER: ("Sage", "Nova", "Rowan", "Wren"),
}


def explicit_name(description: str) -> str | None:
    """Return the name that a description gives the bot explicitly: "called Ada"."""
    match = _EXPLICIT_NAME.search(description)
    name = " ".join((match["quoted"] or match["plain"]).split()) if match else ""
    return name if name and name.isprintable() else None


def proposed_names(description: str, purpose: BotPurpose) -> list[tuple[str, str]]:
    """Return two or three names, each with its reason; the same description returns the same names."""
    names: dict[str, str] = {}
    role = _role(description, purpose)
    topic = _topic(description, role)
    if phrase := _bot_phrase(description):
        names[phrase] = "as in your description"
    if topic and not (phrase and topic in phrase):
        names[f"{topic} {role}"] = f"names its topic: {topic.lower()}"
    elif not phrase:
        names[f"My {role}"] = "names its role"
    short = _SHORT[purpose]
    index = zlib.crc32(description.encode(errors="replace"))
    names[short[index % len(short)]] = "short and easy to remember"
    if len(names) == 2:
        names[short[(index + 1) % len(short)]] = "another short one"
    return list(names.items())


def _bot_phrase(description: str) -> str | None:
    """Return the noun phrase for the bot in a description ("a pomodoro timer"), unless it is generic ("a bot")."""
    text = _EXPLICIT_NAME.sub("", description)
    match = _KNOWN_NOUN_PHRASE.search(text) or _OTHER_NOUN_PHRASE.match(text)
    if match is None:
        return None
    *modifiers, last = match["thing"].split()
    words = [*(word for word in modifiers if word.casefold() not in _FILLERS), last]
    is_generic = len(words) < 2 or words[-1].casefold() in ("bot", "agent")
    return None if is_generic or max(map(len, words)) > _LONGEST_WORD else " ".join(map(_capital, words))


def _role(description: str, purpose: BotPurpose) -> str:
    said = set(words_of(description))
    return next(role for words, role in _ROLES[purpose] if not words or said & set(words.split()))


def _topic(description: str, role: str) -> str | None:
    """Return the topic of a description: a proper name, else a noun after a preposition or "my", else a noun.

    Words with the root of the role are skipped: "Plan Planner" is not a name.
    """
    text = _EXCLUDED_NOUN.sub("", _EXPLICIT_NAME.sub("", description))
    root = role.casefold()[:_ROOT]
    candidates = {
        word
        for word in significant_words(text)
        if word not in _FILLERS and 2 < len(word) <= _LONGEST_WORD and not word.startswith(root)
    }
    proper_names = [word for word in _INNER_WORD.findall(text) if word[0].isupper() and not word.isupper()]
    after_prepositions = [match["topic"] for match in _TOPIC_PHRASE.finditer(text)]
    clause = _CLAUSE.split(text, maxsplit=1)[0]
    for word in (*proper_names, *after_prepositions, *reversed(topics(clause)), *reversed(significant_words(clause))):
        if word.casefold() in candidates:
            return _capital(_singular(word))
    return None


def _singular(word: str) -> str:
    """Return the singular of a regular English plural: "Dragon Storyteller" is a name."""
    if len(word) <= _SHORTEST_PLURAL or not word.islower() or word in _NO_PLURALS or word.endswith("ics"):
        return word
    if word.endswith("oes") and word != "shoes":
        return word[:-2]
    if word.endswith("ies") and word not in _SINGULARS_IN_IE:
        return f"{word[:-3]}y"
    if word.endswith(("xes", "ches", "shes", "sses")):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and word[-2] not in "sui" else word


def _capital(word: str) -> str:
    """Return a word with a capital letter; capitals inside the word are kept."""
    return word if word[1:] != word[1:].lower() and not word.isupper() else word.capitalize()
