"""Drafts: how a state is kept, and how one that an earlier Perdure has kept is brought up to today."""

from collections.abc import Callable
from typing import Any

import orjson

from perdure.errors import Conflict, Damaged
from perdure.forge.ports import DRAFT_VERSION, BuilderDraft
from perdure.forge.state import BuilderState, read_state

Step = Callable[[dict[str, Any]], dict[str, Any]]


def draft_of(state: BuilderState) -> BuilderDraft:
    """Return a state as it is kept; times and revision are the store's."""
    return BuilderDraft(
        session_id=state.session_id,
        state_json=state.text(),
        initial_description=state.initial_description,
        phase=state.phase,
        mode=state.mode,
        question_count=state.question_count,
    )


def state_of(draft: BuilderDraft) -> BuilderState:
    """Read a draft, going through every change that was made to drafts since it was written.

    Raises: Conflict when a newer Perdure has written it; Damaged. Either way it is not changed.
    """
    name, version = draft.session_id, draft.schema_version
    if version > DRAFT_VERSION:
        raise Conflict(
            f"The draft {name} has version {version}, and this Perdure knows versions up to {DRAFT_VERSION}."
            " It was not changed. Install the newer Perdure that wrote it."
        )
    try:
        state = read_state(_brought_up(draft))
    except Damaged as error:
        raise damaged(name, error.detail) from error
    if state.session_id != name:
        raise damaged(name, f"It says that it is {state.session_id!r}.")
    return state


def damaged(session_id: str, why: str) -> Damaged:
    """Say which draft is damaged."""
    return Damaged(f"The draft {session_id} is damaged and was not changed; other drafts are not affected. {why}")


def _brought_up(draft: BuilderDraft) -> str:
    """Return the text of a state as it is written today."""
    if draft.schema_version == DRAFT_VERSION:
        return draft.state_json
    try:
        content = orjson.loads(draft.state_json)
        for version in range(draft.schema_version, DRAFT_VERSION):
            content = STEPS[version](content)
        return orjson.dumps(content).decode()
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Damaged(f"It is not what version {draft.schema_version} wrote.") from error


def _from_0(content: dict[str, Any]) -> dict[str, Any]:
    """Version 0 kept of what was asked only the texts, and named what an exchange was about otherwise."""
    changed = {key: value for key, value in content.items() if key not in ("question", "options")}
    changed["conversation"] = [
        {**{key: value for key, value in each.items() if key != "about"}, "slot": each["about"]}
        for each in content["conversation"]
    ]
    return changed


STEPS: dict[int, Step] = {0: _from_0}
"""How a draft of a version becomes one of the next. Version 0 was never released: it proves the chain."""
