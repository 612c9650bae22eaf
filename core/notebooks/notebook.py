"""Parsing of notebooks: the cells in order with their positions in the file. Pure functions over bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import Struct

from core.errors import ToolFailed
from core.notebooks.json_spans import JsonProblem, Value, scan_items, scan_members

_BOM: Final = b"\xef\xbb\xbf"
_KINDS: Final = ("code", "markdown", "raw")
LARGEST: Final = 16_000_000
"""Maximum size in bytes of a notebook that is displayed as cells; a larger file is treated as text."""

_CONVERT: Final = "Convert it first: jupyter nbconvert --to notebook --nbformat 4 --inplace FILE"


class NotebookInvalid(ToolFailed, code="notebook_invalid"):
    """A file that is no notebook of nbformat 4; the message contains the position of the error."""


class Cell(Struct, frozen=True, kw_only=True):
    """One cell. `text[start:end]` is its JSON object; `first_line` and `last_line` are its lines in the file, from 1.
    `id` is "" before nbformat 4.5."""

    index: int
    kind: str
    id: str
    source: str
    outputs: Sequence[Mapping[str, Any]]
    execution_count: int | None
    metadata: Mapping[str, Any]
    attachments: Sequence[str]
    start: int
    end: int
    first_line: int
    last_line: int

    @property
    def span(self) -> tuple[int, int]:
        return self.first_line, self.last_line


class Notebook(Struct, frozen=True, kw_only=True):
    """A notebook. `members` are those of the root object; `has_bom`: the file begins with a byte order mark, which is
    not part of `text`."""

    text: str
    has_bom: bool
    members: Mapping[str, Value]
    cells: Sequence[Cell]
    language: str
    minor: int

    @property
    def has_ids(self) -> bool:
        """True if new cells need an id."""
        return self.minor >= 5 or any(cell.id for cell in self.cells)

    def encode(self, text: str) -> bytes:
        """Return the file's bytes with this text."""
        return (_BOM if self.has_bom else b"") + text.encode("utf-8", "surrogatepass")


def is_notebook_path(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() == ".ipynb"


def describe_cell(cell: Cell) -> str:
    """Return the number, kind and id of a cell."""
    return f"cell {cell.index} · {cell.kind}{f' · id {cell.id}' if cell.id else ''}"


def looks_like_notebook(data: bytes) -> bool:
    """True if the bytes may be a notebook; a cheap check with few false results."""
    return data.removeprefix(_BOM).lstrip()[:1] == b"{" and b'"nbformat"' in data and b'"cells"' in data


def parse_notebook(path: str, data: bytes) -> Notebook:
    """Parse a notebook. Raises `NotebookInvalid`."""
    try:
        text = data.removeprefix(_BOM).decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        raise NotebookInvalid(
            f"{path} is not a valid notebook: byte {error.start:,} is not UTF-8.", hint="Fix it with a command."
        ) from error
    try:
        return _read_notebook(path, text, has_bom=data.startswith(_BOM))
    except JsonProblem as problem:
        line = text.count("\n", 0, problem.at) + 1
        raise NotebookInvalid(
            f"{path} is not a valid notebook: line {line}: {problem}.", hint="Fix it with a command (python, jq)."
        ) from problem


def find_notebook(data: bytes) -> Notebook | None:
    """Parse a notebook; None if the bytes are none."""
    if not looks_like_notebook(data):
        return None
    try:
        return parse_notebook("", data)
    except NotebookInvalid:
        return None


def _read_notebook(path: str, text: str, *, has_bom: bool) -> Notebook:
    members = scan_members(text, 0)
    major = members["nbformat"].value if "nbformat" in members else None
    if major != 4:
        version_text = f"nbformat {major}" if isinstance(major, int) else "no nbformat"
        hint = _CONVERT if isinstance(major, int) else ""
        raise NotebookInvalid(f"{path} has {version_text}; only nbformat 4 can be edited.", hint=hint)
    if "cells" not in members:
        raise JsonProblem("there are no “cells”", 0)
    minor, metadata = members.get("nbformat_minor"), members.get("metadata")
    metadata_fields = metadata.value if metadata is not None and isinstance(metadata.value, dict) else {}
    cells: list[Cell] = []
    offset, line = 0, 1
    for index, cell_value in enumerate(scan_items(text, members["cells"].start)):
        line += text.count("\n", offset, cell_value.start)
        last = line + text.count("\n", cell_value.start, cell_value.end)
        cells.append(_read_cell(index, cell_value, line, last))
        offset, line = cell_value.end, last
    return Notebook(
        text=text,
        has_bom=has_bom,
        members=members,
        cells=cells,
        language=_find_language(metadata_fields),
        minor=minor.value if minor is not None and isinstance(minor.value, int) else 0,
    )


def _read_cell(index: int, cell_value: Value, first_line: int, last_line: int) -> Cell:
    cell = cell_value.value
    if not isinstance(cell, dict):
        raise JsonProblem(f"cell {index} is not an object", cell_value.start)
    if cell.get("cell_type") not in _KINDS:
        raise JsonProblem(f"cell {index} is not a code, markdown or raw cell", cell_value.start)
    count, outputs = cell.get("execution_count"), cell.get("outputs")
    metadata, attachments = cell.get("metadata"), cell.get("attachments")
    return Cell(
        index=index,
        kind=cell["cell_type"],
        id=cell["id"] if isinstance(cell.get("id"), str) else "",
        source=join_text(cell.get("source"), f"the source of cell {index}", cell_value.start),
        outputs=[output for output in outputs if isinstance(output, dict)] if isinstance(outputs, list) else [],
        execution_count=count if isinstance(count, int) else None,
        metadata=metadata if isinstance(metadata, dict) else {},
        attachments=list(attachments) if isinstance(attachments, dict) else [],
        start=cell_value.start,
        end=cell_value.end,
        first_line=first_line,
        last_line=last_line,
    )


def join_text(value: Any, label: str, offset: int) -> str:
    """Return a multiline string of nbformat, which is a string or a list of lines. Raises `JsonProblem`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    raise JsonProblem(f"{label} is not text", offset)


def _find_language(metadata: Mapping[str, Any]) -> str:
    """Return the language of the code cells from the metadata, "python" by default."""
    for group, key in (("language_info", "name"), ("kernelspec", "language"), ("kernelspec", "name")):
        section = metadata.get(group)
        if isinstance(section, dict) and isinstance(section.get(key), str) and section[key]:
            return str(section[key]).lower()
    return "python"


def scan_cell(notebook: Notebook, cell: Cell) -> dict[str, Value]:
    """Return the members of a cell with their positions."""
    return scan_members(notebook.text, cell.start)


def scan_lines(notebook: Notebook, source: Value) -> list[Value]:
    """Return the lines of a source that is a list; nothing for a string."""
    return scan_items(notebook.text, source.start) if isinstance(source.value, list) else []


def find_touched(spans: Sequence[tuple[int, int]], start: int, count: int) -> range:
    """Return the range of the spans (first and last line, in order) that `count` lines from `start` overlap.

    The hunk of a cell that was inserted after another begins with the closing bracket of the latter, which does not
    count. A cell of one line has no closing bracket of its own.
    """
    last = start + count - 1
    indexes = [index for index, (first, end) in enumerate(spans) if first <= last and end >= start and first <= end]
    if len(indexes) > 1 and spans[indexes[0]][0] < start == spans[indexes[0]][1]:
        indexes = indexes[1:]
    return range(indexes[0], indexes[-1] + 1) if indexes and count else range(0)
