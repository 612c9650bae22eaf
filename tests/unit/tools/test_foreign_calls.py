"""Calls in the published forms of other agents' tools: each is taken as it is meant, or refused with its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import ToolInputInvalid
from core.protocol.messages import ToolCall
from core.text.json_repairs import extract_call_name
from core.tools.arguments import ParsedCall, parse_call
from core.tools.call_tool import unwrap_call
from core.tools.foreign_calls import translate_call
from core.tools.toolset import Toolset

TOOLS = Toolset()
FORMS = Path(__file__).parents[2] / "support" / "harness_calls"
HARNESSES = {path.stem: json.loads(path.read_text()) for path in sorted(FORMS.glob("*.json"))}
ROWS = [(name, number, row) for name, harness in HARNESSES.items() for number, row in enumerate(harness["calls"])]
TAKEN = [pytest.param(row, id=f"{name}-{number}-{row['name']}") for name, number, row in ROWS if "tool" in row]
REFUSED = [pytest.param(row, id=f"{name}-{number}-{row['name']}") for name, number, row in ROWS if "refused" in row]


def parse(name: str, arguments: dict[str, Any]) -> ParsedCall:
    """Parse a call as a turn does."""
    request = ToolCall(id="c1", name=extract_call_name(name), arguments=json.dumps(arguments))
    call = translate_call(unwrap_call(request))
    return parse_call(TOOLS.find(call.name), call.arguments)


def list_differences(value: Any) -> Any:
    """Return a record as its fields that are not at their defaults."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        pairs = ((field, getattr(value, field.name)) for field in fields)
        return {field.name: list_differences(own) for field, own in pairs if own != field.default}
    return [list_differences(entry) for entry in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("row", TAKEN)
def test_a_call_of_another_agent_means_here_what_it_means_there(row):
    call = parse(row["name"], row["arguments"])
    assert (call.tool.name, list_differences(call.tool)) == (row["tool"], row["means"])
    assert list(call.ignored) == row.get("ignored", [])
    assert bool(call.notes) is bool(call.ignored)
    assert all(name in call.notes[0] for name in call.ignored)


@pytest.mark.parametrize("row", REFUSED)
def test_a_call_that_means_nothing_here_is_refused_with_what_to_do(row):
    with pytest.raises(ToolInputInvalid) as refusal:
        parse(row["name"], row["arguments"])
    assert row["refused"] in refusal.value.format_with_hint()
    assert row["because"]


def test_every_form_has_a_source():
    assert len(HARNESSES) >= 21
    for harness in HARNESSES.values():
        assert harness["calls"]
        assert harness["licence"]
        assert all(source.keys() == {"repository", "path", "commit"} for source in harness["sources"])
