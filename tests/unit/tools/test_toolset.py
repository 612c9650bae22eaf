from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import jsonschema
import pytest

import core.prompts
from core.edit_formats import EditFormat
from core.errors import ToolInputInvalid
from core.hooks.dialect_names import get_foreign_tool
from core.modes import Access
from core.protocol.messages import ToolCall
from core.providers.catalog.capabilities import find_canonical_capabilities
from core.providers.openai.server_quirks import ServerQuirks
from core.tools.arguments import build_offered_schema, build_parameters
from core.tools.builtin import BUILTIN
from core.tools.call_tool import unwrap_call
from core.tools.toolset import OFFERED, Toolset

TOOLS = Toolset()

TEXTS = Path(core.prompts.__file__).parent / "tools"

NO_OPEN_OBJECTS = ServerQuirks(takes_objects=False)


def refused(name: str, arguments: str) -> str:
    with pytest.raises(ToolInputInvalid) as caught:
        TOOLS.parse(name, arguments)
    return caught.value.format_with_hint()


def test_every_tool_has_a_text_and_every_text_a_tool():
    assert {path.stem for path in TEXTS.glob("*.md")} == set(TOOLS)
    assert all(len((TEXTS / f"{name}.md").read_text()) > 100 for name in TOOLS)


def test_every_tool_declares_its_name_and_access():
    assert [tool.name for tool in TOOLS.values()] == list(TOOLS)
    assert all(isinstance(tool.access, Access) for tool in TOOLS.values())


def test_every_alias_leads_to_a_tool():
    aliases = {alias: tool.name for tool in BUILTIN for alias in tool.aliases}
    assert {TOOLS.find(alias).name: name for alias, name in aliases.items()} == {
        tool_name: tool_name for tool_name in aliases.values()
    }
    assert not set(aliases) & set(TOOLS)


def schemas(schema: dict[str, object]) -> Iterator[dict[str, object]]:
    """A schema and all within it."""
    yield schema
    for inner in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        yield from schemas(inner)


def test_a_hook_that_guards_the_edits_of_other_agents_is_asked_about_every_tool_that_edits():
    edits = {"Edit", "Write", "MultiEdit", "NotebookEdit"}
    names = {tool.name for tool in TOOLS.values() if tool.access is Access.PROPOSE}
    assert {name for name in names if get_foreign_tool(name).claude not in edits} == set()
    assert {get_foreign_tool(name).claude for name in ("read_file", "read_many_files")} == {"Read"}


def test_only_the_arguments_of_a_called_tool_are_an_object_of_any_fields():
    fitted = {
        spec.name for spec in TOOLS.build_specs(str) if NO_OPEN_OBJECTS.fit_schema(spec.parameters) != spec.parameters
    }
    assert fitted == {"call_tool"}
    assert not find_canonical_capabilities("gemini-3-pro").open_objects
    assert not find_canonical_capabilities("google/gemini-2.5-flash").open_objects


@pytest.mark.parametrize("edits", get_args(EditFormat))
def test_schemas_hold_only_what_every_host_takes(edits):
    for spec in TOOLS.build_specs(str.upper, edits):
        jsonschema.Draft202012Validator.check_schema(spec.parameters)
        assert spec.description in {spec.name.upper(), OFFERED[edits][1].upper()}
        for schema in schemas(NO_OPEN_OBJECTS.fit_schema(spec.parameters)):
            assert set(schema) <= {"type", "description", "enum", "items", "properties", "required"}
            assert schema["type"] in {"object", "array", "string", "integer", "boolean"}
            assert ("items" in schema) is (schema["type"] == "array")
            assert bool(schema.get("properties")) is (schema["type"] == "object"), "Gemini: should be non-empty"
            assert schema.get("required") != []
            assert set(schema.get("required", ())) <= set(schema.get("properties", ()))
            assert all(inner.get("description") for inner in schema.get("properties", {}).values())
            assert len(schema.get("description", "")) <= 300
            assert all(isinstance(word, str) for word in schema.get("enum", ()))


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_tool_in_prose_names_every_argument_that_is_offered(name):
    text = TOOLS.describe(name, "The text.")
    assert text.startswith("The text.")
    for schema in schemas(build_offered_schema(TOOLS[name])):
        assert [key for key in schema.get("properties", {}) if key not in text] == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"name": "probe_remove", "arguments": '{"ids": ["p1"]}'}, ("probe_remove", {"ids": ["p1"]})),
        ({"name": "probe_remove", "arguments": {"ids": ["p1"]}}, ("probe_remove", {"ids": ["p1"]})),
        ({"name": "probe_remove"}, ("probe_remove", {})),
        ({"name": "probe_remove", "arguments": None}, ("probe_remove", {})),
        ({"name": "probe_remove", "ids": ["p1"]}, ("probe_remove", {"ids": ["p1"]})),
        ({"tool_name": "Read", "args": {"path": "a"}}, ("Read", {"path": "a"})),
        ({"name": "write", "arguments": '{"contents": "a\nb"}'}, ("write", {"contents": "a\nb"})),
    ],
)
def test_what_is_called_through_call_tool_is_what_is_meant(written, meant):
    for name in ("call_tool", "CallTool"):
        call = unwrap_call(ToolCall(id="c1", name=name, arguments=json.dumps(written), wire_id="w1"))
        assert (call.id, call.wire_id, call.name, json.loads(call.arguments)) == ("c1", "w1", *meant)


@pytest.mark.parametrize(
    "arguments", ["", "[]", "{", "5", "{}", '{"name": 5}', '{"name": ""}', '{"name": "call_tool"}', "[" * 100_000]
)
def test_a_call_through_call_tool_that_means_nothing_stays_and_is_refused(arguments):
    call = ToolCall(id="c1", name="call_tool", arguments=arguments)
    assert unwrap_call(call) is call
    if arguments != '{"name": "call_tool"}':
        assert refused("call_tool", arguments)


def test_an_argument_of_the_inner_call_that_is_no_json_is_refused_in_words():
    call = unwrap_call(ToolCall(id="c1", name="call_tool", arguments='{"name": "read_file", "arguments": "{a}"}'))
    assert "not valid JSON" in refused(call.name, call.arguments)


def test_a_call_by_its_own_name_is_left_as_it_is():
    call = ToolCall(id="c1", name="probe_remove", arguments='{"name": "x"}')
    assert unwrap_call(call) is call


def test_every_other_name_of_an_argument_leads_to_one():
    for spec in TOOLS.build_specs(str):
        known = json.dumps(build_parameters(TOOLS[spec.name]))
        assert [new for new in TOOLS[spec.name].argument_names.values() if f'"{new}"' not in known] == []


def test_names_and_arguments_that_models_know_from_elsewhere_fit():
    assert TOOLS.parse("Read", '{"path": "a"}') == TOOLS.parse("read_file", '{"target_file": "a"}')
    assert TOOLS.parse("grep_search", '{"query": "x"}').subject() == "x"
    assert TOOLS.parse("StrReplace", '{"path": "a", "old_str": "b", "new_str": "c"}').subject() == "a"
    call = TOOLS.parse("ask_question", '{"questions": [{"text": "Why?", "options": []}]}')
    assert call.questions[0].prompt == "Why?"


def test_v3_values_of_certain_meaning_are_taken():
    call = TOOLS.parse("read_file", '{"target_file": "a", "offset": "5", "limit": null}')
    assert (call.offset, call.limit) == (5, 0)
    assert TOOLS.parse("grep", '{"pattern": "x", "case_sensitive": "false"}').case_sensitive is False
    todos = json.dumps([{"id": "a", "content": "b"}])
    assert TOOLS.parse("todo_write", json.dumps({"todos": todos, "merge": "true"})).todos[0].id == "a"
    assert TOOLS.parse("list_dir", "").relative_workspace_path == "."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"target_file": ', "not valid JSON"),
        ("[]", "expected an object, got list"),
        ("{}", "missing required field `target_file`"),
        ('{"target_file": 5}', "Expected `str`, got `int`"),
        ('{"target_file": "a", "target_file": "b"}', "given more than once"),
        ('{"target_file": "a", "path": "b"}', "given twice"),
        ('{"target_file": "a", "offset": NaN}', "not valid JSON"),
        ('{"target_file": "\\ud800"}', "not valid JSON"),
        ("[" * 200_000, "not valid JSON"),
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


def test_a_model_is_told_of_no_tool_that_is_disabled_and_hears_why_when_it_calls_one():
    fewer = TOOLS.disable({"grep", "search_replace", "probe_add"})
    names = [spec.name for spec in fewer.build_specs(str)]
    assert names == [spec.name for spec in TOOLS.build_specs(str) if spec.name not in {"grep", "search_replace"}]
    assert "grep" not in fewer.essential
    assert "probe_add" not in fewer.deferred["debug"]
    assert "reproduce" in fewer.deferred["debug"]
    assert fewer.find("Grep").name == "grep"
    assert set(TOOLS.deferred["debug"]) <= set(fewer)


def test_only_the_editor_that_is_offered_is_left_out():
    fewer = TOOLS.disable({"search_replace"})
    assert fewer.build_specs(str, "patch") == TOOLS.build_specs(str, "patch")


def test_names_that_are_of_no_tool_are_told_with_the_one_that_is_meant():
    names = ["grep", "Bash", "delete_fiel", "mcp__git__log", "klingon"]
    explanations = TOOLS.explain_unknown({name: f"tools.{name}" for name in names})
    assert [explanation.partition(" has")[0] for explanation in explanations] == [
        "`tools.Bash`",
        "`tools.delete_fiel`",
        "`tools.klingon`",
    ]
    assert explanations[0].endswith("Did you mean run_terminal_cmd?")
    assert "delete_file" in explanations[1]
    assert explanations[2].endswith("no tool with that name.")
