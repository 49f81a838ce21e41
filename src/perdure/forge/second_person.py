"""Rewrites a person's description of a bot as an instruction to the bot: "I want a tutor" is "You are a tutor".

The first sentence loses the words that ask for something ("please make me"), and gets a beginning that depends on the
rest: a noun phrase becomes "You are …", a verb becomes "You …", anything else "Your task: …". In all sentences the
person is put into the third person: the first mention is "the user", later ones are "they". A text that is not English
is quoted.
"""

import re

_REQUEST = re.compile(
    r"""(?:(?:hi|hello|hey)\b[\s,!.]*)?
        (?:please\s+)?
        (?:i(?:['\u2019]d|\s+would)?\s+(?:really\s+)?(?:want|need|like|love|wish\s+for|am\s+looking\s+for)
          |i['\u2019]m\s+looking\s+for | we\s+(?:want|need) | looking\s+for
          |(?:can|could|would|will)\s+you(?:\s+please)?\s+(?=(?:make|build|create|give)\b)
        )?\s*
        (?:please\s+)?
        (?:to\s+have\s+|(?:to\s+)?(?:make|build|create|give)(?:\s+(?:me|us))?\s+)?""",
    re.VERBOSE | re.IGNORECASE,
)
"""A phrase that asks for something, up to the thing that is asked for."""
_YOU_TO = re.compile(
    r"(?:please\s+)?(?:i(?:['\u2019]d|\s+would)?\s+(?:want|need|like|love)\s+you\s+to|(?:can|could|would|will)\s+you(?:\s+please)?"
    r"|you\s+(?:should|must|will|shall))\s+(?!(?:make|build|create|give)\s+(?:me|us)\b)(?=\w)",
    re.IGNORECASE,
)
_SOMETHING_TO = re.compile(
    r"(?:(?:a|an|some)\s+)?(?:bot|assistant|agent|chatbot|helper|ai|something|someone|somebody)\s+"
    r"(?:(?:that|which|who)\s+(?:can|could|will|would|should)|to)\s+(?=\w)",
    re.IGNORECASE,
)
_NOUN_PHRASE = re.compile(r"(?:an?|the|my|our|one)\s+\S", re.IGNORECASE)
_HELP_WITH = re.compile(r"(?:some\s+)?help\s+(?:with|on|in)\s+(?=\w)", re.IGNORECASE)
_BE = re.compile(r"be\s+(?=\w)", re.IGNORECASE)
_STATEMENT = re.compile(r"(?:i|we)(?:['\u2019]\w+)?\s+\w", re.IGNORECASE)
"""A statement about the person: "I am on call"."""
_OWN_STATEMENT = re.compile(
    r"(?:my|our)\s+(?:(?!(?:that|which|who|whose|to|for|and)\b)[\w'\u2019-]+\s+){1,3}"
    r"(?:is|are|was|were|has|have|needs?|wants?|likes?|lives|works)\b",
    re.IGNORECASE,
)
"""A statement about the person's own: "my team needs help"."""
_BOT_NOUN = re.compile(
    r"an?\s+(?:[\w-]+\s+){0,2}?(?:bot|assistant|agent|chatbot|helper|companion|tutor|coach)\b", re.IGNORECASE
)
_SOMEONE = re.compile(r"(?:somebody|someone)\s+who\s+(?=\w)", re.IGNORECASE)
_VERBS_TEXT = (
    "help write analyse analyze plan review find read explain teach answer track remind watch summarise summarize"
    " translate convert calculate cook coach motivate organise organize manage collect compare check test debug"
    " draft edit proofread research monitor play tell give keep make create build run support guide suggest"
    " recommend show listen talk chat practise practice quiz learn study prepare search look design generate count"
    " measure water act bring let sort warn"
)
_VERBS = frozenset(_VERBS_TEXT.split())
"""Verbs that a description may begin with: "write stories about dragons"."""
_IT = re.compile(
    r"\b(?:it|the bot|the assistant)\s+(?=(?:should|must|can|could|may|will|shall|has to|needs to)\b)", re.IGNORECASE
)
_MODALS = {"has to": "have to", "needs to": "need to"}
_PERSONS = re.compile(
    r"\b(?:i['\u2019]m|i\s+am|we['\u2019]re|we\s+are|i['\u2019]ve|we['\u2019]ve|i['\u2019]d|we['\u2019]d|i['\u2019]ll|we['\u2019]ll|i\s+was|i|we|me|us|my|our|mine|ours"
    r"|myself|ourselves)\b",
    re.IGNORECASE,
)
_THIRD_PERSON = {
    "i'm": "they are",
    "i am": "they are",
    "we're": "they are",
    "we are": "they are",
    "i've": "they have",
    "we've": "they have",
    "i'd": "they would",
    "we'd": "they would",
    "i'll": "they will",
    "we'll": "they will",
    "i was": "they were",
    "i": "they",
    "we": "they",
    "mine": "theirs",
    "ours": "theirs",
    "myself": "themselves",
    "ourselves": "themselves",
}
_ENGLISH_TEXT = (
    "a an the i me my we our for that which who to of and with about in on help please want need you your it is"
)
_ENGLISH = frozenset(_ENGLISH_TEXT.split())
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])")


_CLAUSE = re.compile(
    r",\s+(?=never\s|(?:my|our)\s+[\w-]+\s+(?:is|are|has|have)\s|(?:i|we)\s+(?:am|are|have)\s)", re.IGNORECASE
)
"""A comma before a whole sentence."""


def _with_clauses_apart(text: str) -> str:
    """Return a text with a full stop before each clause that is a sentence of its own, unless a condition precedes."""
    first, *more = _CLAUSE.split(text)
    for clause in more:
        words = re.findall(r"[\w']+", first.casefold())
        joint = ", " if set(words) & {*_CONDITIONS, "because", "since"} else ". "
        first = f"{first}{joint}{clause if joint == ', ' else _capital(clause)}"
    return first


def second_person(description: str) -> str:
    """Return a description as instructions to the bot; text that is not English is quoted."""
    first, *more = [" ".join(line.split()) for line in description.split("\n") if line.split()] or [""]
    if not first:
        return ""
    sentences = _SENTENCE.split(_with_clauses_apart(first))
    beginning = _rewrite_first(sentences[0], is_english=_is_english(description))
    text = " ".join([beginning, *map(_rewrite_further, sentences[1:])])
    is_known = "the user" in text
    return "\n".join(
        [text, *(f"In more detail: {_with_full_stop(_in_third_person(line, is_known=is_known))}" for line in more)]
    )


def facts_about_user(description: str) -> list[str]:
    """Return the facts about the person in a description, one sentence each: "I am a nurse" is "They are a nurse."."""
    lines = [" ".join(line.split()) for line in description.split("\n")]
    facts = [match[0].strip(" ,;") for line in lines for match in _FACT.finditer(line)]
    return list(dict.fromkeys(_with_full_stop(_capital(_in_third_person(each, is_known=True))) for each in facts))


def about_user(text: str, *, is_known: bool = False) -> str:
    """Return a text with the person in the third person: "my son" is "the user's son"; "their son" with `is_known`."""
    return _in_third_person(text, is_known=is_known) if _is_english(text) else text


_CONDITIONS = ("when", "whenever", "if", "while", "until", "where", "before", "after", "once")
_ALWAYS = "".join(rf"(?<!\b{word}\s)" for word in _CONDITIONS)
"""A temporary state is not a fact: "when I am working"."""
_FAMILY = (
    "sons?|daughters?|child|children|kids?|baby|toddler|wife|husband|partner|girlfriend|boyfriend|spouse|family"
    "|mother|father|mum|mom|dad|parents?|brothers?|sisters?|grandmother|grandfather|grandparents|dogs?|cats?"
)
_FACT = re.compile(
    rf"\b{_ALWAYS}(?:i am|i['\u2019]m|we are|we['\u2019]re)\s+(?!looking\b|searching\b|sure\b|not sure\b)[^,.;!?]+"
    rf"|\b{_ALWAYS}(?:i|we)\s+(?:live|work|have|study|speak|own|run|teach|manage)\s[^,.;!?]+"
    rf"|\b{_ALWAYS}(?<!\bsure\s)(?<!\bwhether\s)(?:my|our)\s+(?:[\w-]+\s+)?(?:{_FAMILY})\s+"
    r"(?:is|are|has|have|hates?|likes?|loves?|needs?|cannot|can['\u2019]t|eats?|lives?|goes)\s[^,.;!?]+"
    r"|\bmy name is\s[^,.;!?]+",
    re.IGNORECASE,
)


_BEGINNINGS = (
    (_SOMETHING_TO, "You"),
    (_HELP_WITH, "You help the user with"),
    (_BE, "You are"),
    (_SOMEONE, "You are someone who"),
)


def _is_english(text: str) -> bool:
    words = re.findall(r"[^\W\d_]+", text.casefold())
    return bool(words) and (len(words) <= 3 or any(word in _ENGLISH for word in words))


def _rewrite_first(sentence: str, *, is_english: bool) -> str:
    if not is_english:
        return f"The user asked for this: {_with_full_stop(sentence)}"
    sentence = sentence.removesuffix("?")
    if match := _YOU_TO.match(sentence):
        return _with_full_stop(_as_instruction(_in_third_person(sentence[match.end() :])))
    asked = _REQUEST.match(sentence)
    rest = sentence[asked.end() :] if asked else sentence
    return _with_full_stop(_rewrite_request(rest or sentence))


def _as_instruction(text: str) -> str:
    """Return an instruction to do or to be something as a sentence about the bot."""
    match = _BE.match(text)
    return f"You are {text[match.end() :]}" if match else f"You {text}"


def _rewrite_request(rest: str) -> str:
    """Rewrite a request, without the words that ask for it, as a sentence to the bot."""
    for pattern, beginning in _BEGINNINGS:
        if match := pattern.match(rest):
            return f"{beginning} {_in_third_person(rest[match.end() :], is_known='the user' in beginning)}"
    word, _, more = rest.partition(" ")
    if word.casefold() == "to" and more:
        return f"You help the user {_in_third_person(more, is_known=True)}"
    if word.casefold().strip(",.:;") in _VERBS and more:
        return f"You {_in_third_person(f'{word.lower()} {more}')}"
    if _STATEMENT.match(rest) or _OWN_STATEMENT.match(rest):
        return f"You help the user. {_capital(_in_third_person(rest, is_known=True))}"
    if _NOUN_PHRASE.match(rest):
        return f"You are {_in_third_person(f'{word.lower()} {more}')}"
    return f"Your task: {_in_third_person(rest)}"


def _rewrite_further(sentence: str) -> str:
    """Rewrite a sentence after the first."""
    if match := _YOU_TO.match(sentence):
        return _with_full_stop(_as_instruction(_in_third_person(sentence[match.end() :], is_known=True)))
    asked = _REQUEST.match(sentence)
    if asked and asked.end() and _BOT_NOUN.match(sentence, asked.end()):
        return _with_full_stop(f"You are {_in_third_person(sentence[asked.end() :], is_known=True)}")
    text = _IT.sub("you ", sentence)
    for was, becomes in _MODALS.items():
        text = text.replace(f"you {was}", f"you {becomes}")
    return _with_full_stop(_capital(_in_third_person(text, is_known=True)))


def _in_third_person(text: str, *, is_known: bool = False) -> str:
    """Put the person into the third person; the first mention is "the user", unless there was one before."""
    seen = is_known

    def replace(match: re.Match[str]) -> str:
        nonlocal seen
        word = " ".join(match[0].casefold().replace("\u2019", "'").split())
        if word not in _THIRD_PERSON and word not in ("me", "us", "my", "our"):
            return match[0]  # its case folding only looks like one of these words
        was_seen, seen = seen, True
        if word in ("me", "us"):
            return "them" if was_seen else "the user"
        if word in ("my", "our"):
            return "their" if was_seen else "the user's"
        return _THIRD_PERSON[word]

    return _PERSONS.sub(replace, text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _with_full_stop(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…", "。", "\uff01", "\uff1f")) else f"{text.rstrip(',;:')}."
