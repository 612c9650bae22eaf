"""Every record of the wire survives JSON: commands, replies, queries, answers and events, with their tags."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q

UNIONS = {
    "command": cmd.AnyCommand,
    "reply": cmd.Reply,
    "query": q.AnyQuery,
    "answer": q.AnyAnswer,
    "event": ev.AnyEvent,
}
RECORDS = [(kind, record) for kind, union in UNIONS.items() for record in get_args(union)]


DEFINITIONS: dict[str, Any] = {}
PLAIN = {"string": "é\u2028\x1b[0m", "integer": 7, "number": 0.5, "boolean": True}


def sample(wanted: Any, depth: int = 0) -> Any:
    """A small JSON value that fits a JSON Schema."""
    if "$ref" in wanted:
        return sample(DEFINITIONS[wanted["$ref"].rpartition("/")[2]], depth)
    if options := wanted.get("anyOf") or wanted.get("oneOf"):
        return sample(options[0] if depth < 12 else options[-1], depth + 1)
    if wanted.get("contentEncoding") == "base64":
        return "AAEC"
    if "pattern" in wanted:
        return "plain"
    if "enum" in wanted:
        return wanted["enum"][-1]
    return compound(wanted, depth + 1)


def compound(wanted: Any, depth: int) -> Any:
    if "prefixItems" in wanted:
        return [sample(each, depth) for each in wanted["prefixItems"]]
    if wanted.get("type") == "object":
        return {name: sample(each, depth) for name, each in wanted.get("properties", {}).items()}
    if wanted.get("type") == "array":
        return [sample(wanted["items"], depth)] if "items" in wanted else []
    return PLAIN.get(wanted.get("type", ""))


@pytest.mark.parametrize(("kind", "record"), RECORDS, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_a_record_with_every_field_filled_comes_back_equal(kind, record):
    _, components = msgspec.json.schema_components([record], ref_template="#/$defs/{name}")
    DEFINITIONS.update(components)
    filled = sample({"$ref": f"#/$defs/{record.__name__}"})
    decoder = msgspec.json.Decoder(UNIONS[kind])
    made = decoder.decode(msgspec.json.encode(filled))
    assert type(made) is record
    encoded = msgspec.json.encode(made)
    assert decoder.decode(encoded) == made
    assert b"\n" not in encoded
    assert set(msgspec.json.decode(encoded)) == set(filled)


@pytest.mark.parametrize("kind", UNIONS)
def test_an_unknown_type_is_refused(kind):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"type":"no.such"}', type=UNIONS[kind])


def test_event_names_are_noun_and_participle_and_unlike_any_command():
    events = {record.__struct_config__.tag for record in get_args(ev.AnyEvent)}
    commands = {record.__struct_config__.tag for record in get_args(cmd.AnyCommand)}
    assert len(events) == len(get_args(ev.AnyEvent))
    assert events & commands == set()
