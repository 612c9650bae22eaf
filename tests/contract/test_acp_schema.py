"""Our records of the Agent Client Protocol and its official schema agree, field by field."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

from core.acp import agent_methods, client_methods, content
from tests.support.acp_lines import load_schema

# Records that are called otherwise than in the schema, where the name has another meaning in this house.
NAMES = {
    "ShownContent": "Content",
    "ShownDiff": "Diff",
    "ShownTerminal": "Terminal",
    "UserMessageChunk": "ContentChunk",
    "AgentMessageChunk": "ContentChunk",
    "AgentThoughtChunk": "ContentChunk",
    "ToolCallStarted": "ToolCall",
    "ToolCallChanged": "ToolCallUpdate",
    "PlanShown": "Plan",
    "NoticeShown": "Notice",
    "ListedSession": "SessionInfo",
    "ResourceContents": "TextResourceContents",
}
APART = {
    "AcpRecord", "AcpBlock",  # bases
    "EnumOption",  # its value is called `const`
    "CancelledPermissionOutcome",  # has no definition of its own
    "CreateElicitationRequest", "CreateElicitationResponse", "ElicitationSchema", "SessionConfigOption",
    "ResourceContents", "SetSessionConfigOptionRequest",  # several definitions in one: see below
}  # fmt: skip
MERGED = {
    "CreateElicitationRequest": ("CreateElicitationRequest", "ElicitationSessionScope", "ElicitationFormMode"),
    "CreateElicitationResponse": ("CreateElicitationResponse", "ElicitationAcceptAction"),
    "ElicitationSchema": ("ElicitationSchema",),
    "SessionConfigOption": ("SessionConfigOption", "SessionConfigSelect"),
    "ResourceContents": ("TextResourceContents", "BlobResourceContents"),
    "SetSessionConfigOptionRequest": ("SetSessionConfigOptionRequest",),
}


def list_records() -> dict[str, Any]:
    modules = (content, client_methods, agent_methods)
    records = {
        name: record
        for module in modules
        for name, record in inspect.getmembers(module, inspect.isclass)
        if record.__module__ == module.__name__ and issubclass(record, msgspec.Struct)
    }
    return dict(sorted(records.items()))


RECORDS = list_records()


def fields_of(record: Any) -> dict[str, bool]:
    """The names on the wire, and whether each has to be there."""
    return {field.encode_name: field.required for field in msgspec.structs.fields(record)}


def properties_of(*names: str) -> tuple[set[str], set[str]]:
    """The properties of definitions taken together, and the required ones."""
    definitions = [load_schema()["$defs"][name] for name in names]
    properties = {key for one in definitions for key in one.get("properties", {})} - {"_meta"}
    return properties, {key for one in definitions for key in one.get("required", ())}


@pytest.mark.parametrize("name", [each for each in RECORDS if each not in APART])
def test_a_record_has_the_fields_of_its_definition(name):
    fields = fields_of(RECORDS[name])
    properties, required = properties_of(NAMES.get(name, name))
    assert set(fields) == properties
    assert {field_name for field_name, is_required in fields.items() if is_required} == required


@pytest.mark.parametrize("name", MERGED)
def test_a_record_of_several_definitions_has_no_field_beside_theirs(name):
    properties, required = properties_of(*MERGED[name])
    fields = set(fields_of(RECORDS[name]))
    extra = {"SetSessionConfigOptionRequest": {"value", "type"}, "CreateElicitationResponse": {"action"}}
    assert fields - extra.get(name, set()) <= properties
    assert required - {"type"} <= fields | {"blob", "text"}


def test_each_update_has_a_record_with_its_tag():
    known = {record.__struct_config__.tag for record in client_methods.SessionUpdate.__args__}
    variants = load_schema()["$defs"]["SessionUpdate"]["oneOf"]
    assert known == {definition["properties"]["sessionUpdate"]["const"] for definition in variants}
    for record in client_methods.SessionUpdate.__args__:
        [variant] = [v for v in variants if v["properties"]["sessionUpdate"]["const"] == record.__struct_config__.tag]
        assert variant["allOf"][0]["$ref"].rsplit("/", 1)[1] == NAMES.get(record.__name__, record.__name__)


def test_each_method_of_an_agent_is_answered():
    from core.transports.acp.agent import AcpAgent

    stable = {
        definition["x-method"]
        for name, definition in load_schema()["$defs"].items()
        if definition.get("x-side") == "agent" and name.endswith("Request")
    }
    assert set(AcpAgent(None, None, None)._methods) == stable
