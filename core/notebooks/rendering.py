"""Notebooks as text: a heading for every cell, its source, and its outputs, summarized or shortened.

The lines are those of the percent format (`# %%`), which editors know; the lines of cells other than code have the same
prefix. The text for searching has the same line numbers, with empty lines for outputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from core.notebooks.json_spans import JsonProblem, Value
from core.notebooks.notebook import LARGEST, Cell, Notebook, describe_cell, find_notebook, is_notebook_path, join_text
from core.patterns import compile_lazily
from core.text.counting import count
from core.text.lines import clip

_SLASHES: Final = frozenset({"javascript", "typescript", "java", "scala", "kotlin", "rust", "go", "c++", "cpp", "c"})
_DASHES: Final = frozenset(["sql", "haskell", "lua"])
_CONTROL: Final = compile_lazily(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_MAX_OUTPUT_LINES: Final = 20
_MAX_OUTPUT_TEXT: Final = 2_000
_MAX_METADATA: Final = 300
_HEAD: Final = compile_lazily(r"(?:#|//|--) %% cell \d+ · (code|markdown|raw)(?: · id .*)?")
_LANGUAGE: Final = compile_lazily(r"(?:#|//|--) Notebook with [\d,]+ cells?, (.+)\. Edit it with edit_notebook\.")


class OutputPicture(Struct, frozen=True):
    """A picture among the outputs, in base64, and the number of its cell."""

    data: str
    cell: int


class NotebookText(Struct, frozen=True):
    """The text of a notebook, and the pictures among its outputs, in order."""

    text: str
    pictures: Sequence[OutputPicture]


class Section(Struct, frozen=True):
    """The lines for a part of the file: a cell, or (`cell` -1) the members before or after the cells.

    `first_line` and `last_line` are the lines of the file, from 1; `last_line` is one less than `first_line` for an
    empty part.
    """

    cell: int
    first_line: int
    last_line: int
    lines: Sequence[str]

    @property
    def span(self) -> tuple[int, int]:
        return self.first_line, self.last_line


def find_comment_sign(language: str) -> str:
    """Return the prefix of comment lines in this language."""
    return "//" if language in _SLASHES else "--" if language in _DASHES else "#"


def render_sections(notebook: Notebook) -> list[Section]:
    """Render the whole notebook with summarized outputs: the members before the cells, every cell, the members after
    them."""
    sign, cells = find_comment_sign(notebook.language), notebook.cells
    before, after = _split_members(notebook)
    total = notebook.text.count("\n") + (not notebook.text.endswith("\n"))
    top = cells[0].first_line - 1 if cells else total
    sections = [Section(-1, 1, top, _render_members(before if cells else [*before, *after], sign))]
    sections += [Section(cell.index, cell.first_line, cell.last_line, render_cell(cell, sign)) for cell in cells]
    if cells:
        sections.append(Section(-1, cells[-1].last_line + 1, total, _render_members(after, sign)))
    return sections


def render_cell(cell: Cell, sign: str = "#") -> list[str]:
    """Return the lines of a cell: its heading, source, attachments and one line about its outputs."""
    lines = [f"{sign} %% {describe_cell(cell)}", *_render_source(cell, sign)]
    if cell.metadata:
        lines.insert(1, f"{sign} metadata {clip(_dump(cell.metadata), _MAX_METADATA)}")
    if cell.attachments:
        lines.append(f"{sign} attached: {', '.join(cell.attachments)}")
    if summary := summarize_outputs(cell):
        lines.append(f"{sign} → {summary}")
    return lines


def summarize_outputs(cell: Cell) -> str:
    """Summarize the outputs of a cell in a few words; "" if it has none and was not run."""
    parts = [f"run {cell.execution_count}"] if cell.execution_count is not None else []
    for output in cell.outputs:
        parts.append(_summarize_output(output))
    return " · ".join(parts)


def render_for_reading(notebook: Notebook, *, has_outputs: bool = True) -> NotebookText:
    """Render the notebook with shortened outputs and the pictures among them; without outputs, their lines are
    empty."""
    sign = find_comment_sign(notebook.language)
    cells = count("cell", len(notebook.cells))
    head = f"{sign} Notebook with {cells}, {notebook.language}. Edit it with edit_notebook."
    lines, pictures = [head], list[OutputPicture]()
    for cell in notebook.cells:
        lines += [f"{sign} %% {describe_cell(cell)}", *_render_source(cell, sign)]
        for output in cell.outputs:
            output_lines = [
                f"{sign} → {_summarize_output(output)}",
                *(f"{sign}   {line}" for line in _shorten_output(output)),
            ]
            lines += output_lines if has_outputs else [""] * len(output_lines)
            pictures += [OutputPicture(data, cell.index) for data in _find_pictures(output)]
    return NotebookText("\n".join(lines) + "\n", pictures)


def _render_source(cell: Cell, sign: str) -> list[str]:
    lines = cell.source.replace("\r\n", "\n").split("\n") if cell.source else []
    return lines if cell.kind == "code" else [f"{sign} {line}" for line in lines]


def _split_members(notebook: Notebook) -> tuple[list[Value], list[Value]]:
    cells = notebook.members["cells"]
    every = [member for member in notebook.members.values() if member is not cells]
    return [member for member in every if member.start < cells.start], [
        member for member in every if member.start > cells.start
    ]


def _render_members(members: Sequence[Value], sign: str) -> list[str]:
    if not members:
        return []
    return [f"{sign} %% notebook", *(line for member in members for line in _render_member(member, sign))]


def _render_member(member: Value, sign: str) -> Iterator[str]:
    if isinstance(member.value, dict) and member.value:
        for key, value in member.value.items():
            yield f"{sign} {member.key}.{key}: {clip(_dump(value), _MAX_METADATA)}"
    else:
        yield f"{sign} {member.key}: {clip(_dump(member.value), _MAX_METADATA)}"


def _summarize_output(output: Mapping[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "error":
        return f"error {_clean(str(output.get('ename', '')))}: {clip(_clean(str(output.get('evalue', ''))), 120)}"
    if kind == "stream":
        return f"{output.get('name', 'stream')} {_count_lines(_read_text(output.get('text')))}"
    data = output.get("data")
    if not isinstance(data, dict) or not data:
        return f"{kind}"
    return ", ".join(_describe_data(str(media), value) for media, value in data.items())


def _describe_data(media: str, value: Any) -> str:
    text = _read_text(value)
    if media == "text/plain":
        return f"text {_count_lines(text)}"
    size = len(text) * 3 // 4 if media.startswith("image/") and "svg" not in media else len(text)
    return f"{media} {max(size, 1) / 1000:,.1f} kB"


def _shorten_output(output: Mapping[str, Any]) -> list[str]:
    kind, data = output.get("output_type"), output.get("data")
    if kind == "stream":
        text = _read_text(output.get("text"))
    elif kind == "error":
        text = "\n".join(map(str, output.get("traceback") or ()))
    else:
        text = _read_text(data.get("text/plain")) if isinstance(data, dict) else ""
    lines = _clean(text).rstrip("\n").split("\n") if text else []
    visible_lines: list[str] = []
    budget = _MAX_OUTPUT_TEXT
    for line in lines[-_MAX_OUTPUT_LINES:] if kind == "error" else lines[:_MAX_OUTPUT_LINES]:
        visible_lines.append(clip(line, budget))
        budget -= len(visible_lines[-1])
        if budget <= 0:
            break
    left_out = len(lines) - len(visible_lines)
    return [*visible_lines, f"[{left_out:,} more lines]"] if left_out else visible_lines


def _find_pictures(output: Mapping[str, Any]) -> Iterator[str]:
    data = output.get("data")
    for media, value in data.items() if isinstance(data, dict) else ():
        if media in {"image/png", "image/jpeg", "image/gif", "image/webp"}:
            yield _read_text(value)


def _read_text(value: Any) -> str:
    try:
        return join_text(value, "", 0)
    except JsonProblem:
        return "" if value is None else _dump(value)


def _count_lines(text: str) -> str:
    return count("line", text.count("\n") + (bool(text) and not text.endswith("\n")))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _clean(text: str) -> str:
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


class CellLines(Struct, frozen=True):
    """The lines of a cell in the text of its notebook, from 1: `head` is the heading, `last` the last line."""

    head: int
    last: int
    is_code: bool


def find_notebook_text(path: str, data: bytes, *, has_outputs: bool = True) -> str | None:
    """Return the text of a notebook; None if it is none, invalid, or larger than `LARGEST`."""
    if not is_notebook_path(path) or len(data) > LARGEST:
        return None
    notebook = find_notebook(data)
    return render_for_reading(notebook, has_outputs=has_outputs).text if notebook is not None else None


def choose_limit(path: str, limit: int) -> int:
    """Return the number of bytes to read of a file for a text of `limit` bytes; a notebook has to be read as a
    whole."""
    return max(limit, LARGEST + 1) if is_notebook_path(path) else limit


def find_language(text: str) -> str:
    """Return the language of a notebook from its text; "" if the text is not that of a notebook."""
    match = _LANGUAGE.fullmatch(text.partition("\n")[0])
    return match[1] if match else ""


def list_cells(text: str) -> list[CellLines]:
    """Return the cells of a notebook from its text. A source line that looks like a heading counts as one."""
    lines = text.removesuffix("\n").split("\n")
    heads = [(line_number, match) for line_number, line in enumerate(lines, 1) if (match := _HEAD.fullmatch(line))]
    ends = [line_number - 1 for line_number, _ in heads[1:]] + [len(lines)]
    return [
        CellLines(line_number, last, match[1] == "code") for (line_number, match), last in zip(heads, ends, strict=True)
    ]
