"""What is decoded comes from others: one door makes of a text that is nested too deep a reader's ordinary error."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from core import records
from core.config.loading import parse_table
from core.errors import ConfigError
from tests.contract.source_tree import ROOT

# Calls that give up on deep texts with an error that no reader expects.
PARSING = {
    *("json.loads", "json.load", "json.JSONDecoder().raw_decode", "_DECODER.decode", "_DECODER.raw_decode"),
    *("msgspec.json.decode", "msgspec.json.Decoder", "msgspec.msgpack.decode", "msgspec.msgpack.Decoder"),
    *("msgspec.convert", "msgspec.yaml.decode", "msgspec.toml.decode", "tomllib.loads", "tomllib.load", "ast.parse"),
    *("ast.literal_eval", "plistlib.load", "ElementTree.parse", "ElementTree.fromstring"),
}
YAML_METHODS = {"load", "load_all", "parse", "compose"}
DOOR = "core/records.py"
OURS = {"core/providers/connection/lean_import.py"}  # it reads the program's own packages


def is_parsing(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    is_yaml = isinstance(call.func, ast.Attribute) and call.func.attr in YAML_METHODS and name.startswith("YAML(")
    return name in PARSING or is_yaml


def list_unguarded(path: Path) -> list[int]:
    """The lines of calls that stand in no `try` with an answer to `RecursionError`."""
    lines = []

    def visit(node: ast.AST, *, guarded: bool) -> None:
        if isinstance(node, ast.Call) and is_parsing(node) and not guarded:
            lines.append(node.lineno)
        if isinstance(node, ast.Try):
            caught = any("RecursionError" in ast.unparse(handler.type) for handler in node.handlers if handler.type)
            for statement in node.body:
                visit(statement, guarded=guarded or caught)
            for child in (*node.handlers, *node.orelse, *node.finalbody):
                visit(child, guarded=guarded)
            return
        if isinstance(node, ast.With):
            caught = any("RecursionError" in ast.unparse(withitem.context_expr) for withitem in node.items)
            for statement in node.body:
                visit(statement, guarded=guarded or caught)
            return
        for child in ast.iter_child_nodes(node):
            visit(child, guarded=guarded)

    visit(ast.parse(path.read_text("utf-8")), guarded=False)
    return lines


def test_n40_every_text_of_others_is_decoded_by_the_one_door_or_with_an_answer_to_its_depth():
    unguarded = {
        f"{path.relative_to(ROOT).as_posix()}:{line}"
        for folder in ("core", "tui")
        for path in (ROOT / folder).rglob("*.py")
        if path.relative_to(ROOT).as_posix() not in {DOOR, *OURS} and "inside" not in path.parts
        for line in list_unguarded(path)
    }
    assert unguarded == set()


def test_n40_an_unguarded_call_is_noticed(tmp_path):
    file = tmp_path / "x.py"
    file.write_text("try:\n    a = json.loads(b)\nexcept ValueError:\n    pass\nYAML(typ='safe').load(b)\n")
    assert list_unguarded(file) == [2, 5]
    file.write_text("try:\n    a = json.loads(b)\nexcept (ValueError, RecursionError):\n    pass\n")
    assert list_unguarded(file) == []


DEEP = ("[" * 100_000 + "]" * 100_000, "[" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 300 + "]" * 300)


class Loose(msgspec.Struct):
    data: dict[str, object] = {}


@pytest.mark.parametrize("text", DEEP, ids=["lists", "open", "objects", "just"])
def test_n40_what_is_nested_too_deep_is_no_valid_text_at_the_door(text):
    with pytest.raises(msgspec.DecodeError):
        records.decode_json(text)
    with pytest.raises(ValueError, match=r"deep|column"):
        records.parse_json(text)
    with pytest.raises(ValueError, match=r"deep|column"):
        records.parse_json_part(json.JSONDecoder(), text)
    with pytest.raises(tomllib.TOMLDecodeError):
        records.parse_toml(f"a = {text}")


def test_n40_a_record_with_deep_data_is_refused_as_any_other():
    for depth in (100_000, 5_000, 900, 300):
        text = '{"data":{"a":' + "[" * depth + "]" * depth + "}}"
        for data in (text, text.encode(), msgspec.Raw(text.encode())):
            with pytest.raises(msgspec.DecodeError):
                records.decode_json(data, Loose)
        with pytest.raises(msgspec.DecodeError):
            records.decode_json(f"[{text}]", list[Loose])


def test_n40_what_a_model_may_send_is_read_again_in_the_record_that_holds_it():
    text = "[" * (records.MAX_DEPTH - 2) + "]" * (records.MAX_DEPTH - 2)
    data = {"a": records.parse_json(text)}
    assert records.decode_json(msgspec.json.encode([Loose(data)]), list[Loose]) == [Loose(data)]


def test_n40_what_people_write_is_not_too_deep():
    text = "[" * 150 + "]" * 150
    assert records.decode_json(text) == records.parse_json(text)
    wide = records.parse_json(json.dumps([{"a": [1, {"b": []}]}] * 50_000))
    assert len(wide) == 50_000


def test_n40_settings_that_are_nested_too_deep_name_their_file():
    deep = "[" * 100_000
    with pytest.raises(ConfigError, match="is not valid TOML"):
        parse_table(Path("config.toml"), f"a = {deep}{']' * 100_000}".encode())
