"""Edits of a notebook's text: replacing, inserting and deleting a cell in the style of the file."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from core.notebooks.json_spans import Value
from core.notebooks.notebook import Cell, Notebook, scan_cell, scan_lines
from core.patterns import compile_lazily

_DEFAULT_INDENT: Final = " "
_ESCAPED: Final = compile_lazily(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")


class _Style(Struct, frozen=True):
    """The formatting of a file. `unit`: its indentation, "" = all on one line; `ascii`: other characters are
    escaped."""

    unit: str
    newline: str
    comma: str
    colon: str
    ascii: bool

    def dump(self, value: Any, indent: str) -> str:
        """Return a value as JSON whose lines after the first begin with `indent`."""
        separators = (self.comma.rstrip() if self.unit else self.comma, self.colon)
        text = json.dumps(value, ensure_ascii=self.ascii, indent=self.unit or None, separators=separators)
        return text.replace("\n", f"{self.newline}{indent}") if self.unit else text


def create_notebook(language: str) -> bytes:
    """Return the bytes of a new notebook without cells."""
    metadata = {"language_info": {"name": language}}
    if language == "python":
        metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return f"{json.dumps(document, indent=1, sort_keys=True)}\n".encode()


def replace_source(notebook: Notebook, cell: Cell, source: str) -> bytes:
    """Return the file with another source in one cell. The outputs of a code cell are cleared, as they belong to the
    old source."""
    members, text, style = scan_cell(notebook, cell), notebook.text, _find_style(notebook)
    edits = [(members["source"], _render_source(notebook, members["source"], source, style))]
    if cell.kind == "code":
        if "outputs" in members and members["outputs"].value != []:
            edits.append((members["outputs"], "[]"))
        if "execution_count" in members and members["execution_count"].value is not None:
            edits.append((members["execution_count"], "null"))
    for value, new in sorted(edits, key=lambda edit: edit[0].start, reverse=True):
        text = f"{text[: value.start]}{new}{text[value.end :]}"
    return notebook.encode(text)


def insert_cell(notebook: Notebook, index: int, kind: str, source: str, metadata: Mapping[str, Any]) -> bytes:
    """Return the file with a new cell before index `index`, or at the end if there is no such cell."""
    style, text, cells = _find_style(notebook), notebook.text, notebook.cells
    array = notebook.members["cells"]
    indent = _find_cell_indent(notebook, style)
    cell_text = style.dump(_build_cell(notebook, index, kind, source, metadata), indent)
    gap = f"{style.newline}{indent}" if style.unit else style.comma.removeprefix(",")
    if not cells:
        end = f"{style.newline}{_find_indent(text, array.key_start)}" if style.unit else ""
        first = gap if style.unit else ""
        return notebook.encode(f"{text[: array.start]}[{first}{cell_text}{end}]{text[array.end :]}")
    if index < len(cells):
        offset = cells[index].start
        return notebook.encode(f"{text[:offset]}{cell_text},{gap}{text[offset:]}")
    offset = cells[-1].end
    return notebook.encode(f"{text[:offset]},{gap}{cell_text}{text[offset:]}")


def delete_cell(notebook: Notebook, cell: Cell) -> bytes:
    """Return the file without a cell."""
    cells, text = notebook.cells, notebook.text
    if len(cells) == 1:
        start, end = notebook.members["cells"].start + 1, notebook.members["cells"].end - 1
    elif cell is cells[-1]:
        start, end = cells[-2].end, cell.end
    else:
        start, end = cell.start, cells[cell.index + 1].start
    return notebook.encode(f"{text[:start]}{text[end:]}")


def _render_source(notebook: Notebook, source_value: Value, source: str, style: _Style) -> str:
    if isinstance(source_value.value, str):
        return json.dumps(source, ensure_ascii=style.ascii)
    lines, line_values = source.splitlines(keepends=True), scan_lines(notebook, source_value)
    if not lines:
        return "[]"
    text = notebook.text
    line_texts = {line_value.value: text[line_value.start : line_value.end] for line_value in line_values}
    items = [line_texts.get(line) or json.dumps(line, ensure_ascii=style.ascii) for line in lines]
    opening = closing = ""
    if line_values:
        opening, closing = (
            text[source_value.start + 1 : line_values[0].start],
            text[line_values[-1].end : source_value.end - 1],
        )
    elif style.unit:
        closing = f"{style.newline}{_find_indent(text, source_value.key_start)}"
        opening = f"{closing}{style.unit}"
    between = (
        text[line_values[0].end : line_values[1].start]
        if len(line_values) > 1
        else f",{opening}"
        if opening
        else style.comma
    )
    return f"[{opening}{between.join(items)}{closing}]"


def _find_style(notebook: Notebook) -> _Style:
    text, members = notebook.text, list(notebook.members.values())
    first = members[0]
    colon = text[first.key_start : first.start].rpartition('"')[2].replace("\n", "").replace("\r", "")
    has_lines = "\n" in text[: first.key_start]
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _find_indent(text, first.key_start) or _DEFAULT_INDENT if has_lines else ""
    between = text[first.end : members[1].key_start] if len(members) > 1 else ", "
    comma = ", " if unit or between.endswith(" ") else ","
    return _Style(unit, newline, comma, colon, text.isascii() and _ESCAPED.search(text) is not None)


def _find_indent(text: str, offset: int) -> str:
    """Return the white space between the beginning of the line and `offset`; "" if there is other text."""
    begin = text.rfind("\n", 0, offset) + 1
    indent = text[begin:offset]
    return indent if not indent.strip() else ""


def _find_cell_indent(notebook: Notebook, style: _Style) -> str:
    if notebook.cells:
        return _find_indent(notebook.text, notebook.cells[0].start)
    return _find_indent(notebook.text, notebook.members["cells"].key_start) + style.unit


def _build_cell(notebook: Notebook, index: int, kind: str, source: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    like = _find_sibling(notebook, index, kind)
    is_text = like is not None and isinstance(like["source"].value, str)
    fields: dict[str, Any] = {
        "cell_type": kind,
        "metadata": dict(metadata),
        "source": source if is_text else source.splitlines(keepends=True),
    }
    if kind == "code":
        fields |= {"execution_count": None, "outputs": []}
    if notebook.has_ids:
        fields["id"] = _build_id(notebook)
    order = list(like) if like is not None else []
    return dict(
        sorted(fields.items(), key=lambda item: (order.index(item[0]) if item[0] in order else len(order), item))
    )


def _find_sibling(notebook: Notebook, index: int, kind: str) -> dict[str, Value] | None:
    """Return the members of the nearest cell of this kind, else of any kind."""
    cells = sorted(notebook.cells, key=lambda cell: (cell.kind != kind, abs(cell.index - index)))
    return scan_cell(notebook, cells[0]) if cells else None


def _build_id(notebook: Notebook) -> str:
    cell_ids = {cell.id for cell in notebook.cells}
    while (cell_id := secrets.token_hex(4)) in cell_ids:
        pass
    return cell_id
