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


def sample(schema: Any, depth: int = 0) -> Any:
    """A small JSON value that fits a JSON Schema."""
    if "$ref" in schema:
        return sample(DEFINITIONS[schema["$ref"].rpartition("/")[2]], depth)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return sample(options[0] if depth < 12 else options[-1], depth + 1)
    if schema.get("contentEncoding") == "base64":
        return "AAEC"
    if "pattern" in schema:
        return "plain"
    if "enum" in schema:
        return schema["enum"][-1]
    return compound(schema, depth + 1)


def compound(schema: Any, depth: int) -> Any:
    if "prefixItems" in schema:
        return [sample(subschema, depth) for subschema in schema["prefixItems"]]
    if schema.get("type") == "object":
        return {name: sample(subschema, depth) for name, subschema in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [sample(schema["items"], depth)] if "items" in schema else []
    return PLAIN.get(schema.get("type", ""))


@pytest.mark.parametrize(("kind", "record"), RECORDS, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_a_record_with_every_field_filled_comes_back_equal(kind, record):
    _, components = msgspec.json.schema_components([record], ref_template="#/$defs/{name}")
    DEFINITIONS.update(components)
    filled = sample({"$ref": f"#/$defs/{record.__name__}"})
    decoder = msgspec.json.Decoder(UNIONS[kind])
    decoded_record = decoder.decode(msgspec.json.encode(filled))
    assert type(decoded_record) is record
    encoded = msgspec.json.encode(decoded_record)
    assert decoder.decode(encoded) == decoded_record
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
