"""Our records of the Agent Client Protocol and its official schema agree, field by field."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

from core.acp import agent_methods, client_methods, content, updates
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
    modules = (content, updates, agent_methods, client_methods)
    found = {
        name: each
        for module in modules
        for name, each in inspect.getmembers(module, inspect.isclass)
        if each.__module__ == module.__name__ and issubclass(each, msgspec.Struct)
    }
    return dict(sorted(found.items()))


RECORDS = list_records()


def fields_of(record: Any) -> dict[str, bool]:
    """The names on the wire, and whether each has to be there."""
    return {each.encode_name: each.required for each in msgspec.structs.fields(record)}


def properties_of(*names: str) -> tuple[set[str], set[str]]:
    """The properties of definitions taken together, and the required ones."""
    found = [load_schema()["$defs"][name] for name in names]
    properties = {each for one in found for each in one.get("properties", {})} - {"_meta"}
    return properties, {each for one in found for each in one.get("required", ())}


@pytest.mark.parametrize("name", [each for each in RECORDS if each not in APART])
def test_a_record_has_the_fields_of_its_definition(name):
    fields = fields_of(RECORDS[name])
    properties, required = properties_of(NAMES.get(name, name))
    assert set(fields) == properties
    assert {each for each, is_required in fields.items() if is_required} == required


@pytest.mark.parametrize("name", MERGED)
def test_a_record_of_several_definitions_has_no_field_beside_theirs(name):
    properties, required = properties_of(*MERGED[name])
    fields = set(fields_of(RECORDS[name]))
    extra = {"SetSessionConfigOptionRequest": {"value", "type"}, "CreateElicitationResponse": {"action"}}
    assert fields - extra.get(name, set()) <= properties
    assert required - {"type"} <= fields | {"blob", "text"}


def test_each_update_has_a_record_with_its_tag():
    known = {each.__struct_config__.tag for each in updates.SessionUpdate.__args__}
    variants = load_schema()["$defs"]["SessionUpdate"]["oneOf"]
    assert known == {each["properties"]["sessionUpdate"]["const"] for each in variants}
    for each in updates.SessionUpdate.__args__:
        [variant] = [v for v in variants if v["properties"]["sessionUpdate"]["const"] == each.__struct_config__.tag]
        assert variant["allOf"][0]["$ref"].rsplit("/", 1)[1] == NAMES.get(each.__name__, each.__name__)


def test_each_method_of_an_agent_is_answered():
    from core.transports.acp.agent import AcpAgent

    stable = {
        each["x-method"]
        for name, each in load_schema()["$defs"].items()
        if each.get("x-side") == "agent" and name.endswith("Request")
    }
    assert set(AcpAgent(None, None, None)._methods) == stable
