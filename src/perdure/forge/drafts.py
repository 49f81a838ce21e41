"""Drafts: encode the state of a session, decode it, and upgrade drafts of earlier versions."""

from collections.abc import Callable
from typing import Any

import orjson

from perdure.errors import Conflict, Damaged
from perdure.forge.ports import DRAFT_VERSION, BuilderDraft
from perdure.forge.state import BuilderState, read_state

Step = Callable[[dict[str, Any]], dict[str, Any]]


def encode_draft(state: BuilderState) -> BuilderDraft:
    """Return a state as a draft; the store sets its times and its revision."""
    return BuilderDraft(
        session_id=state.session_id,
        state_json=state.text(),
        initial_description=state.initial_description,
        phase=state.phase,
        mode=state.mode,
        question_count=state.question_count,
    )


def decode_draft(draft: BuilderDraft) -> BuilderState:
    """Decode a draft, after upgrading it through each version since it was written. The draft is not changed.

    Raises: Conflict when a newer Perdure wrote it; Damaged.
    """
    name, version = draft.session_id, draft.schema_version
    if version > DRAFT_VERSION:
        raise Conflict(
            f"The draft {name} has version {version}; this Perdure supports versions up to {DRAFT_VERSION}."
            " It was not changed. Install the newer Perdure that wrote it."
        )
    try:
        state = read_state(_upgraded(draft))
    except Damaged as error:
        raise damaged(name, error.detail) from error
    if state.session_id != name:
        raise damaged(name, f"It contains the session id {state.session_id!r}.")
    return state


def damaged(session_id: str, why: str) -> Damaged:
    """Return the error for a damaged draft."""
    return Damaged(f"The draft {session_id} is damaged and was not changed; other drafts are not affected. {why}")


def _upgraded(draft: BuilderDraft) -> str:
    """Return the text of a state in the present version."""
    if draft.schema_version == DRAFT_VERSION:
        return draft.state_json
    try:
        content = orjson.loads(draft.state_json)
        for version in range(draft.schema_version, DRAFT_VERSION):
            content = UPGRADES[version](content)
        return orjson.dumps(content).decode()
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Damaged(f"It is not a valid draft of version {draft.schema_version}.") from error


def _from_0(content: dict[str, Any]) -> dict[str, Any]:
    """Upgrade version 0: it stored the pending question as texts only, and named the slot of an exchange `about`."""
    changed = {key: value for key, value in content.items() if key not in ("question", "options")}
    changed["conversation"] = [
        {**{key: value for key, value in each.items() if key != "about"}, "slot": each["about"]}
        for each in content["conversation"]
    ]
    return changed


UPGRADES: dict[int, Step] = {0: _from_0}
"""Upgrades from each version to the next. Version 0 was never released; it exists to test the chain."""
