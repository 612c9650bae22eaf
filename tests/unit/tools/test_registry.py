from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import core.prompts
from core.errors import ToolInputInvalid
from core.modes import Access
from core.tools.registry import ALIASES, TOOLS, parse_call, tool_specs

TEXTS = Path(core.prompts.__file__).parent / "tools"


def refused(name: str, arguments: str) -> str:
    with pytest.raises(ToolInputInvalid) as caught:
        parse_call(name, arguments)
    return caught.value.explained()


def test_every_tool_has_a_text_and_every_text_a_tool():
    assert {path.stem for path in TEXTS.glob("*.md")} == set(TOOLS)
    assert all(len((TEXTS / f"{name}.md").read_text()) > 150 for name in TOOLS)


def test_every_tool_declares_its_name_and_access():
    assert [tool.name for tool in TOOLS.values()] == list(TOOLS)
    assert all(isinstance(tool.access, Access) for tool in TOOLS.values())


def test_every_alias_leads_to_a_tool():
    assert set(ALIASES.values()) <= set(TOOLS)
    assert not set(ALIASES) & set(TOOLS)


def test_schemas_are_flat_closed_and_valid():
    for spec in tool_specs(str.upper):
        jsonschema.Draft202012Validator.check_schema(spec.parameters)
        text = json.dumps(spec.parameters)
        assert "$ref" not in text
        assert "$defs" not in text
        assert spec.parameters["additionalProperties"] is False
        assert all("description" in each for each in spec.parameters["properties"].values())
        assert spec.description == spec.name.upper()


def test_every_other_name_of_an_argument_leads_to_one():
    for spec in tool_specs(str):
        known = json.dumps(spec.parameters)
        assert [new for new in TOOLS[spec.name].argument_names.values() if f'"{new}"' not in known] == []


def test_names_and_arguments_that_models_know_from_elsewhere_fit():
    assert parse_call("Read", '{"path": "a"}') == parse_call("read_file", '{"target_file": "a"}')
    assert parse_call("grep_search", '{"query": "x"}').subject() == "x"
    assert parse_call("StrReplace", '{"path": "a", "old_str": "b", "new_str": "c"}').subject() == "a"
    call = parse_call("ask_question", '{"questions": [{"text": "Why?", "options": []}]}')
    assert call.questions[0].prompt == "Why?"


def test_v3_values_of_certain_meaning_are_taken():
    call = parse_call("read_file", '{"target_file": "a", "offset": "5", "limit": null}')
    assert (call.offset, call.limit) == (5, 0)
    assert parse_call("grep", '{"pattern": "x", "case_sensitive": "false"}').case_sensitive is False
    todos = json.dumps([{"id": "a", "content": "b"}])
    assert parse_call("todo_write", json.dumps({"todos": todos, "merge": "true"})).todos[0].id == "a"
    assert parse_call("list_dir", "").relative_workspace_path == "."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"target_file": ', "no valid JSON"),
        ("[]", "expected an object, got list"),
        ("{}", "missing required field `target_file`"),
        ('{"target_file": 5}', "Expected `str`, got `int`"),
        ('{"target_file": "a", "ofset": 1}', "Did you mean offset?"),
        ('{"target_file": "a", "target_file": "b"}', "given more than once"),
        ('{"target_file": "a", "path": "b"}', "given twice"),
        ('{"target_file": "a", "offset": NaN}', "no valid JSON"),
        ('{"target_file": "\\ud800"}', "no valid JSON"),
        ("[" * 200_000, "no valid JSON"),
        ('{"target_file": "' + "a" * 10_000_000 + '"}', "too large"),
        ('{"target_file": "a", "limit": -1}', "limit"),
    ],
)
def test_v3_wrong_arguments_are_refused_in_words(arguments, words):
    assert words in refused("read_file", arguments)


def test_v4_an_unknown_tool_names_near_ones():
    message = refused("reed_file", "{}")
    assert "There is no tool 'reed_file'" in message
    assert "Did you mean read_file" in message


def test_an_unknown_mode_names_the_problem():
    assert "Invalid enum value 'yolo'" in refused("switch_mode", '{"target_mode_id": "yolo"}')
