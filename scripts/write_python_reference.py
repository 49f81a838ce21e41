"""Writes the reference of the Python API from its signatures and docstrings."""

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import typing_extensions

import perdure
import perdure.sync
import perdure.testing
from perdure.app.builder.forge import Forge
from perdure.app.builder.sessions import SessionView
from perdure.app.builder.skills import Skills
from perdure.app.goals.goals import Goals
from perdure.app.memory.memory import HomeMemory
from perdure.app.wire.resources.builder import AssemblyResult, NewSession, NextTurn, Session, Turn
from perdure.app.wire.resources.events import GoalEvent
from perdure.app.wire.resources.goals import Call, Goal, GoalDetail
from perdure.app.wire.resources.memory import AddedRecord, RelatedMatch, SearchMatch
from perdure.client import Client, bots, builder, chat, goals, memory, models

INTRODUCTION = """\
Start with the [tutorial](../tutorial.md). The guides [write a flow](../how-to/write-a-flow.md), [use the
database](../how-to/use-the-database.md) and [use the memory](../how-to/remember-and-find.md) explain the API by
example.

- Functions that read or write a home are async, except the four functions for a memory log alone. Sync code uses
  [`perdure.sync`](#perduresync).
- `from perdure import …` imports a name at its first use, so `import perdure` is fast.
- Functions that change a goal need its whole id; functions that only read accept a unique prefix.
- In signatures, `P` stands for the parameters of the given function or flow, and `T` for its result.
- All errors are listed in [errors](errors.md).
"""

CLIENT_INTRODUCTION = """\
`from perdure.client import Client` gives access to the goals, interviews, bots and memory of a
[server](../how-to/serve-over-http.md) from another process. All methods are async. They raise the
[errors](errors.md) that the server reports, or `Unavailable` if it does not respond; values that cannot be sent
raise `Invalid` before a request is made. A `key` identifies one call: a repetition is executed once.
"""

GOALS = (
    *("run", "options", "start", "handle", "resume", "retry", "list", "find", "history", "follow"),
    *("decide", "signal", "cancel", "fork", "compare", "replay", "delete"),
)
MEMORY = (
    *("add", "add_many", "get", "related", "search", "iter", "status", "verify", "repair", "rebuild", "compact"),
    *("forget", "export", "import_lines"),
)
RECORDS = ("append_record", "read_records", "iter_records", "get_memory_state_dir")
FORGE = ("start", "get", "answer", "reconfigure", "changes", "assemble", "create_skill", "drafts", "delete")
SKILLS = ("list", "get", "create")
CLIENT = (
    (goals.Goals, "client.goals"),
    (builder.Builder, "client.builder"),
    (chat.Chat, "chat"),
    (bots.Bots, "client.bots"),
    (memory.Memory, "client.memory"),
    (models.Models, "client.models"),
)
RESOURCES = (
    *(("Goal", Goal), ("GoalDetail", GoalDetail), ("Call", Call), ("GoalEvent", GoalEvent)),
    *(("NewSession", NewSession), ("Session", Session), ("NextTurn", NextTurn), ("Turn", Turn)),
    *(("AssemblyResult", AssemblyResult), ("AddedRecord", AddedRecord)),
    *(("SearchMatch", SearchMatch), ("RelatedMatch", RelatedMatch)),
)
CURRENT_STEP = ("step_key", "idempotency_key", "usage", "record", "progress")
TEST_CLOCK = ("now", "advance")
TEST_HOME = ("replace", "crash", "settle")
MAKING = ("create", "exists")
DATABASE = ("transaction", "read", "tables", "count_rows", "ping", "health", "verify", "backup", "close")
WORDS = {"Effect": perdure.Effect, "GoalStatus": perdure.GoalStatus, "Status": perdure.Status}
_WIDTH = 110
_COROUTINE = re.compile(r"Coroutine\[(?:Any, Any|object, object), (.*)\]")
_EACH = {"iter": "record", "export": "line", "each": "found", "changes": "goal", "drafts": "draft"}
"""What an async generator gives, if not events."""


def python_page() -> str:
    """Return the text of the page, without its title."""
    parts = [
        INTRODUCTION,
        *_section("`Perdure`", perdure.Perdure),
        *_member(perdure.Perdure, "open", "Perdure"),
        *_section("`p.goals`", Goals),
        *(line for name in GOALS for line in _member(Goals, name, "p.goals")),
        *_section("`GoalOptions`", perdure.GoalOptions),
        *(line for name in ("run", "start") for line in _member(perdure.GoalOptions, name, "options")),
        *_section("`Limits`", perdure.Limits),
        _fields(perdure.Limits),
        *_section("`GoalHandle`", perdure.GoalHandle),
        *(line for name in ("status", "result", "cancel") for line in _member(perdure.GoalHandle, name, "handle")),
        *_section("`GoalFailed`", perdure.GoalFailed),
        *_section("`GoalCancelled`", perdure.GoalCancelled),
        *_section("`GoalWaiting`", perdure.GoalWaiting),
        *_section("`p.memory`", HomeMemory),
        *(line for name in MEMORY for line in _member(HomeMemory, name, "p.memory")),
        *_section("`MemoryRecord`", perdure.MemoryRecord),
        _fields(perdure.MemoryRecord),
        *(line for name in RECORDS for line in _function(name)),
        *_section("`p.forge`", Forge),
        *(line for name in FORGE for line in _member(Forge, name, "p.forge")),
        *_section("`SessionView`", SessionView),
        _fields(SessionView),
        *_member(SessionView, "wire", "session"),
        *_section("`BuilderConfig`", perdure.BuilderConfig),
        _fields(perdure.BuilderConfig),
        *_section("`p.skills`", Skills),
        *(line for name in SKILLS for line in _member(Skills, name, "p.skills")),
        *_flows(),
        *_section("`GoalResult`", perdure.GoalResult),
        _fields(perdure.GoalResult),
        *_section("`GoalView`", perdure.GoalView),
        *(
            line
            for name in ("id", "text", "status", "reason", "wire")
            for line in _member(perdure.GoalView, name, "view")
        ),
        *_section("`Event`", perdure.Event),
        _fields(perdure.Event),
        *(line for name in ("wire", "line") for line in _member(perdure.Event, name, "event")),
        *_section("`Parted`", perdure.Parted),
        _fields(perdure.Parted),
        *_section("`Replayed`", perdure.Replayed),
        "## Words\n",
        *(f"- `{name}`: {_words(kind)}" for name, kind in WORDS.items()),
        f"- `BuilderAnswer`: {_classes(perdure.BuilderAnswer)}",
        f"- `BuilderTurn`: {_classes(typing.get_args(perdure.BuilderTurn)[0])}",
        "",
        *_section("`Bot`", perdure.Bot),
        _fields(perdure.Bot),
        *(
            line
            for name in ("name", "category", "model_settings", "prompt")
            for line in _member(perdure.Bot, name, "bot")
        ),
        *_section("`AssemblyResult`", perdure.AssemblyResult),
        _fields(perdure.AssemblyResult),
        *_section("`DatabaseClient`", perdure.DatabaseClient),
        *(line for name in MAKING for line in _member(perdure.DatabaseClient, name, "DatabaseClient")),
        *(line for name in DATABASE for line in _member(perdure.DatabaseClient, name, "db")),
    ]
    return "\n".join(parts)


def _flows() -> list[str]:
    """Describe what a flow is written, tested and run from sync code with."""
    return [
        *_function("flow", level=2),
        *_section("`Flow`", perdure.Flow),
        *_section("`Goal`", perdure.Goal),
        *(line for name in _public(perdure.Goal) for line in _member(perdure.Goal, name, "goal")),
        *_section("`CallOptions`", perdure.CallOptions),
        *(line for name in _public(perdure.CallOptions) for line in _member(perdure.CallOptions, name, "options")),
        *_section("`First`", perdure.First),
        _fields(perdure.First),
        *_constructed(perdure.Retry),
        *_constructed(perdure.Happened),
        *_function("current_step", level=2),
        *_section("`CurrentStep`", perdure.CurrentStep),
        _fields(perdure.CurrentStep),
        *(line for name in CURRENT_STEP for line in _member(perdure.CurrentStep, name, "current_step()")),
        *_function("current_goal", level=2),
        *_section("`StepFailed`", perdure.StepFailed),
        "## `perdure.testing`\n",
        "See [test a flow](../how-to/test-a-flow.md).\n",
        *_function("home", perdure.testing),
        "### `p.clock`\n",
        _prose(perdure.testing.ManualClock),
        *(line for name in TEST_CLOCK for line in _member(perdure.testing.ManualClock, name, "p.clock")),
        *(line for name in TEST_HOME for line in _member(perdure.testing.TemporaryHome, name, "p")),
        "## `perdure.sync`\n",
        "The API for sync code.\n",
        *_function("open", perdure.sync),
        "### `wait`\n",
        f"```py\n{_call(perdure.sync.Wait.__call__, 'wait')}\n```\n",
        _prose(perdure.sync.Wait.__call__),
    ]


def client_page() -> str:
    """Return the text of the page about the client of a server, without its title."""
    parts = [
        CLIENT_INTRODUCTION,
        *_section("`Client`", Client),
        *_member(Client, "request", "client"),
        *(line for kind, name in CLIENT for each in _public(kind) for line in _member(kind, each, name)),
        "## Types of results\n",
        "Results are dictionaries with these keys. An `Event` has the keys of `GoalEvent` for every `type`; its"
        " `payload` and every other resource are described by `/openapi.json`.\n",
        *(line for name, shape in RESOURCES for line in (f"### `{name}`\n", _prose(shape), _resource_fields(shape))),
    ]
    return "\n".join(parts)


def _public(kind: type) -> list[str]:
    return [name for name, thing in vars(kind).items() if inspect.isfunction(thing) and not name.startswith("_")]


def _section(title: str, thing: Any) -> list[str]:
    return [f"## {title}\n", _prose(thing)]


def _member(owner: type, name: str, called: str) -> list[str]:
    found = inspect.getattr_static(owner, name)
    thing = getattr(owner, name)
    if isinstance(found, property):
        return [f"### `{called}.{name}`\n", _prose(found)]
    return [f"### `{called}.{name}`\n", f"```py\n{_calls(thing, f'{called}.{name}')}\n```\n", _prose(thing)]


def _function(name: str, module: ModuleType = perdure, *, level: int = 3) -> list[str]:
    """Describe a function of a public module."""
    thing = getattr(module, name)
    called = f"{module.__name__}.{name}"
    shown = name if module is perdure else called
    return [f"{'#' * level} `{shown}`\n", f"```py\n{_calls(thing, called)}\n```\n", _prose(thing)]


def _constructed(kind: type) -> list[str]:
    """Describe a dataclass that a program makes itself, with its fields as parameters."""
    fields = ["*" if field == "_: KW_ONLY" else field for field in _annotated(kind)]
    parameters = [field for field in fields if not field.startswith("_")]
    return [f"## `{kind.__name__}`\n", f"```py\n{_line(f'perdure.{kind.__name__}', parameters)}\n```\n", _prose(kind)]


def _calls(function: Callable[..., Any], called: str) -> str:
    """Write a function as it is called: each of its overloads, if it has any."""
    return "\n".join(_call(each, called) for each in typing.get_overloads(function) or [function])


def _call(function: Callable[..., Any], called: str) -> str:
    """Write one signature, with its types as the source has them."""
    inner = inspect.unwrap(function)
    node = ast.parse(textwrap.dedent(inspect.getsource(inner))).body[0]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise TypeError(f"{called} is not a function.")
    before, after = _around(node, function, called)
    return _line(f"{before}{called}", _parameters(node.args, inner.__globals__), after)


def _around(node: ast.FunctionDef | ast.AsyncFunctionDef, function: Callable[..., Any], called: str) -> tuple[str, str]:
    """Return what stands before and after a call."""
    inner, name, returned = inspect.unwrap(function), called.rpartition(".")[2], _text(node.returns)
    if inspect.isasyncgenfunction(inner) and inner is function:
        return f"async for {_EACH.get(name, 'event')} in ", ""
    if inspect.isasyncgenfunction(inner) or "AsyncContextManager" in returned:
        return "async with ", " as chat" if name == "chat" else " as p"
    if inspect.isgeneratorfunction(inner) and inner is not function:
        return "with ", " as (p, wait)"
    if returned == "Deadline":
        return "async with ", ""
    made = _COROUTINE.fullmatch(returned)
    is_awaited = isinstance(node, ast.AsyncFunctionDef) or made is not None
    result = returned if made is None else made.group(1)
    return "await " if is_awaited else "", f" -> {result}"


def _line(called: str, parameters: list[str], after: str = "") -> str:
    """Write a call with its parameters, one a line when it is long."""
    line = f"{called}({', '.join(parameters)}){after}"
    if len(line) <= _WIDTH:
        return line
    listed = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{called}(\n{listed}){after}"


def _parameters(given: ast.arguments, names: Mapping[str, Any]) -> list[str]:
    """Write each parameter with its type and default, without the object itself."""
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    written = [_parameter(*pair) for pair in zip(positional, defaults, strict=True)]
    shown = [
        *written[: len(given.posonlyargs)],
        *(["/"] if given.posonlyargs else []),
        *written[len(given.posonlyargs) :],
    ]
    if positional and positional[0].arg in ("self", "cls"):
        shown = shown[2:] if shown[1:2] == ["/"] else shown[1:]
    if given.vararg is not None or given.kwonlyargs:
        shown.append("*" + (_parameter(given.vararg, None) if given.vararg else ""))
    shown += [_parameter(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return shown if given.kwarg is None else [*shown, *_named(given.kwarg, names, has_star="*" in shown)]


def _named(kwarg: ast.arg, names: Mapping[str, Any], *, has_star: bool) -> list[str]:
    """Write `**more`; of a TypedDict, whose keys are parameters like all others, each of them."""
    unpacked = re.fullmatch(r"Unpack\[(\w+)\]", _text(kwarg.annotation))
    if unpacked is None:
        return [f"**{_parameter(kwarg, None)}"]
    return [*([] if has_star else ["*"]), *(f"{field} = ..." for field in _annotated(names[unpacked[1]]))]


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    return f"{argument.arg}: {_text(argument.annotation)}" + (f" = {_text(default)}" if default is not None else "")


def _text(node: ast.expr | None) -> str:
    """Write a type or a default as it stands in the source; a type in quotes without them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        named = re.sub(r"\bwire\.", "", node.value)
        is_type = any(letter in named for letter in "[|") or named[:1].isupper()
        return named if is_type else f'"{node.value}"'
    return "None" if node is None else ast.unparse(node)


def _fields(kind: Any) -> str:
    return "".join(f"- `{field.partition(' = ')[0]}`\n" for field in _annotated(kind) if not field.startswith("_"))


_ANNOTATED = re.compile(r"Annotated\[([^,]+(?:\[.*?\])?), (?:DescribedBy\(.*\)|Schema\(.*\)|_[A-Z]+)\]")
"""A type with what describes it to OpenAPI, which says nothing to a reader of the type."""


def _resource_fields(kind: Any) -> str:
    """Return the fields of a TypedDict, those that it inherits first."""
    inherited = [base for base in kind.__orig_bases__ if typing_extensions.is_typeddict(base)]
    return "".join(_resource_fields(base) for base in inherited) + _ANNOTATED.sub(r"\1", _fields(kind))


def _annotated(kind: Any) -> list[str]:
    """Return the fields of a class as its source has them, with their defaults."""
    node = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    found = [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.AnnAssign)]
    return [
        f"{ast.unparse(field.target)}: {_text(field.annotation)}" + (f" = {_text(field.value)}" if field.value else "")
        for field in found
    ]


def _words(kind: Any) -> str:
    return ", ".join(f"`{word}`" for word in typing.get_args(kind))


def _classes(union: Any) -> str:
    return ", ".join(f"`{kind.__name__}`" for kind in typing.get_args(union))


def _prose(thing: Any) -> str:
    """Return a docstring as Markdown: what is indented is code, and what may be raised is a line of its own."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(_code(text) if _is_code(text) else " ".join(text.split()) for text in paragraphs) + "\n"


def _is_code(text: str) -> bool:
    if text.startswith("Raises:"):
        return False
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return "\n    " in text


def _code(text: str) -> str:
    return f"```py\n{text}\n```"
