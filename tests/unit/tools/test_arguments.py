"""Arguments of any tool: a NUL character in one is an error of the call, in words for the model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import ToolInputInvalid
from core.modes import Access
from core.tools.arguments import build_parameters, convert_arguments, parse_call
from core.tools.external import build_external_tool
from core.tools.toolset import Toolset

TOOLS = Toolset()
SERVED = build_external_tool("mcp__a__b", "a:b", reads=False, asks=False)


def list_texts(schema: dict[str, Any], value: str) -> Any:
    """A value of a schema whose every text is this one."""
    match schema.get("type"):
        case "array":
            return [list_texts(schema.get("items", {}), value)]
        case "object":
            return {name: list_texts(below, value) for name, below in schema.get("properties", {}).items()}
        case "integer" | "number":
            return 1
        case "boolean":
            return False
    return value


@pytest.mark.parametrize("name", list(TOOLS))
def test_a_nul_in_any_argument_of_any_tool_is_an_error_of_the_call(name):
    tool = TOOLS[name]
    properties = build_parameters(tool)["properties"]
    texts = {key: list_texts(schema, "a\0b") for key, schema in properties.items()}
    odd = {key: value for key, value in texts.items() if "\\u0000" in json.dumps(value)}
    for key, value in odd.items():
        with pytest.raises(ToolInputInvalid, match=r"contains a NUL character \(U\+0000\)"):
            convert_arguments(tool, json.dumps({key: value}))


def test_a_nul_in_a_list_that_was_sent_as_a_text_is_found():
    todos = json.dumps([{"id": "1", "content": "a\0", "status": "pending"}])
    arguments = json.dumps({"merge": False, "todos": todos})
    with pytest.raises(ToolInputInvalid, match="todos contains a NUL character"):
        convert_arguments(TOOLS["todo_write"], arguments)


def test_what_a_server_is_given_is_checked_by_the_server():
    assert convert_arguments(SERVED, '{"text": "a\\u0000"}').arguments == {"text": "a\0"}


READING = {Access.READ, Access.NET, Access.ASK, Access.JOB, Access.EXTERNAL}


def test_only_tools_that_write_and_run_nothing_go_on_without_an_argument():
    lenient = [tool for tool in TOOLS.values() if tool.ignores_unknown]
    assert {tool.access for tool in lenient} == READING
    assert "stop_terminal" not in {tool.name for tool in lenient}


@pytest.mark.parametrize("name", sorted(name for name in TOOLS if not TOOLS[name].ignores_unknown))
def test_an_argument_that_a_writing_tool_does_not_have_fails_its_call(name):
    with pytest.raises(ToolInputInvalid, match=f"{name} has no argument 'dry_run', so nothing was done"):
        convert_arguments(TOOLS[name], '{"dry_run": true}')
    with pytest.raises(ToolInputInvalid, match="'nothing'"):
        convert_arguments(TOOLS[name], '{"dry_run": null, "nothing": 5}')


def test_a_misspelled_argument_of_a_reading_tool_is_named_with_its_name():
    call = parse_call(TOOLS["read_file"], '{"target_file": "a", "ofset": 1}')
    assert (call.tool.offset, call.ignored) == (1, ("ofset",))
    assert call.notes == ("read_file has no argument 'ofset' (did you mean offset?): it did its work without",)


@pytest.mark.parametrize("spelling", ["targetFile", "TargetFile", "target-file", "TARGET_FILE", "filePath", "FilePath"])
def test_an_argument_is_found_in_any_spelling(spelling):
    assert convert_arguments(TOOLS["read_file"], json.dumps({spelling: "a"})).target_file == "a"


def test_an_argument_that_is_given_twice_alike_is_one():
    assert convert_arguments(TOOLS["read_file"], '{"path": "a", "file_path": "a"}').target_file == "a"
    with pytest.raises(ToolInputInvalid, match="is given twice"):
        convert_arguments(TOOLS["read_file"], '{"path": "a", "file_path": "b"}')
