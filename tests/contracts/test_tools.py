"""What every tool says about itself: a description, and a schema that accepts what the tool accepts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from perdure import Invalid
from perdure.kernel.deciding.kernel_tools import KERNEL_TOOLS, KernelTool
from perdure.kernel.events import ToolCall
from perdure.kernel.tool import Tool, ToolSpec
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.steps.step_tool import StepTool
from perdure.tools.exec.exec import ExecTool
from perdure.tools.files import ReadFileTool, WriteFileTool

HASH = "a" * 64


@dataclass(frozen=True)
class Sample:
    """A tool, with arguments that it takes and arguments that it rejects."""

    spec: ToolSpec
    validate: Callable[[Mapping[str, Any]], object]
    good: list[dict[str, Any]]
    bad: list[dict[str, Any]]


def of_tool(tool: Tool, good: list[dict[str, Any]], bad: list[dict[str, Any]]) -> Sample:
    return Sample(tool.spec, tool.validate, good, bad)


def of_kernel(tool: KernelTool, good: list[dict[str, Any]], bad: list[dict[str, Any]]) -> Sample:
    def answer(arguments: Mapping[str, Any]) -> object:
        return tool.answer(ToolCall("a.1", "a", tool.spec.name, dict(arguments), "once"))

    return Sample(tool.spec, answer, good, bad)


SAMPLES = [
    of_tool(
        ExecTool(Path("run"), lambda: "home"),
        [
            {"argv": ["ls"]},
            {"argv": ["ls", ""]},
            {"argv": ["a; b"], "shell": True},
            {"argv": ["a", "b"], "shell": False, "timeout_s": 0.5, "env": {"A": ""}, "cwd": "x", "check": ["c", "d"]},
            {"argv": ["a"], "shell": None, "timeout_s": None, "env": None, "cwd": None, "check": None},
        ],
        [
            {},
            {"argv": []},
            {"argv": "ls"},
            {"argv": [""]},
            {"argv": ["a", 1]},
            {"argv": ["a\0b"]},
            {"argv": ["a", "b"], "shell": True},
            {"argv": ["a"], "shell": "yes"},
            {"argv": ["a"], "timeout_s": 0},
            {"argv": ["a"], "timeout_s": -1},
            {"argv": ["a"], "timeout_s": True},
            {"argv": ["a"], "timeout_s": 1e10},
            {"argv": ["a"], "env": {"": "x"}},
            {"argv": ["a"], "env": {"a=b": "x"}},
            {"argv": ["a"], "env": {"a": 1}},
            {"argv": ["a"], "env": []},
            {"argv": ["a"], "cwd": ""},
            {"argv": ["a"], "cwd": 1},
            {"argv": ["a"], "check": []},
            {"argv": ["a"], "check": "c"},
            {"argv": ["a"], "what": 1},
        ],
    ),
    of_tool(
        ReadFileTool(),
        [{"path": "a"}, {"path": "a/b", "max_bytes": 0}],
        [
            {},
            {"path": ""},
            {"path": 1},
            {"path": "a\0"},
            {"path": "a", "max_bytes": -1},
            {"path": "a", "max_bytes": True},
            {"path": "a", "max_bytes": 1 << 21},
            {"path": "a", "more": 1},
        ],
    ),
    of_tool(
        WriteFileTool(),
        [
            {"path": "a", "content": ""},
            {"path": "a", "content": "x", "expected_sha256": None},
            {"path": "a", "content": "x", "expected_sha256": HASH},
        ],
        [
            {"path": "a"},
            {"content": "x"},
            {"path": "a", "content": 1},
            {"path": "a", "content": "x", "expected_sha256": HASH.upper()},
            {"path": "a", "content": "x", "expected_sha256": HASH[1:]},
            {"path": "a", "content": "x", "expected_sha256": 1},
            {"path": "a", "content": "x", "mode": 1},
        ],
    ),
    of_tool(StepTool(Progress()), [{}, {"args": [1], "kwargs": {"a": 1}, "digest": "d"}], []),
    of_kernel(
        KERNEL_TOOLS["ask"],
        [{"question": "Now?"}, {"question": "Now?", "options": ["yes", "no"]}, {"question": "Now?", "options": None}],
        [
            {},
            {"question": "  "},
            {"question": 1},
            {"question": "Now?", "options": []},
            {"question": "Now?", "options": [1]},
            {"question": "Now?", "option": "yes"},
        ],
    ),
    of_kernel(KERNEL_TOOLS["done"], [{}, {"value": {"a": [1]}}, {"value": None}], [{"result": 1}]),
]


def name_of(sample: Sample) -> str:
    return sample.spec.name


@pytest.mark.parametrize("sample", SAMPLES, ids=name_of)
def test_a_tool_describes_itself_and_its_parameters(sample: Sample) -> None:
    spec = sample.spec
    assert spec.description.strip().endswith(".")
    assert spec.effect in ("pure", "idempotent", "once")
    assert spec.parameters["type"] == "object"
    jsonschema_rs.meta.validate(dict(spec.parameters))
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    assert all(each["description"] for each in properties.values())


@pytest.mark.parametrize("sample", SAMPLES, ids=name_of)
def test_the_schema_of_a_tool_accepts_and_rejects_what_the_tool_does(sample: Sample) -> None:
    schema = jsonschema_rs.validator_for(dict(sample.spec.parameters))
    for arguments in sample.good:
        sample.validate(arguments)
        assert schema.is_valid(arguments), arguments
    for arguments in sample.bad:
        with pytest.raises(Invalid):
            sample.validate(arguments)
        assert not schema.is_valid(arguments), arguments


def test_the_effect_of_a_call_is_declared_only_where_the_tool_leaves_it_to_the_author() -> None:
    declaring = {sample.spec.name for sample in SAMPLES if sample.spec.declares_effect}
    assert declaring == {"exec", "step"}
    spec = replace(SAMPLES[0].spec, declares_effect=False)
    assert spec.effect_of("pure", is_governed=False) == "once"
