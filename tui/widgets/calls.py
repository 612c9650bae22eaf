"""The rows of calls of tools: one line that says what a call was about and what came of it, more when it is opened."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from rich.cells import cell_len, set_cell_size

from core.lookalikes import marked
from core.protocol import documents
from tui.keymap import key_of
from tui.state import Block
from tui.text import clean, console, exposed, named, one_line, shortened
from tui.widgets.rows import GUTTER, INDENT, Piece, Row, cells, wrap

LIVE_ROWS: Final = 8
OPEN_ROWS: Final = 400
OWN_ROWS: Final = 20  # of what a command of the user's own wrote; it was typed to be read
ALL_OF_IT: Final = f"{key_of('app.chat', {})}, then {key_of('transcript.toggle', {})}"
LEAST: Final = 16  # columns for what a call was about
SETTLED: Final = ("pending review", "kept beside the review")  # ends what was changed; what follows are notes
MARGIN: Final = 5  # columns for the gutter and the signs

_STATUS_ROLES: Final = {"failed": "bad", "denied": "warn", "cancelled": "warn"}
_NOT_IN_MODE: Final = re.compile(r"(\w+) mode does not allow")


def head(sign: str, pieces: Sequence[Piece], width: int, *, came: Sequence[Piece] = ()) -> Row:
    """The one line of a collapsed block; what does not fit is cut. What came of it is not cut for what it was about."""
    taken = cells(came)
    if width - taken < LEAST:
        pieces, came, taken = [*pieces, *came], (), 0
    return Row([*_cut([GUTTER, (f"{sign} ", "muted"), *pieces], width - taken), *came], lead=2)


def _cut(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """As many columns of them as there are, and a sign where something is left out."""
    if cells(pieces) <= width:
        return list(pieces)
    kept: list[Piece] = []
    room = width - 1
    for text, role in pieces:
        if (size := cell_len(text)) > room:
            return [*kept, (set_cell_size(text, room).rstrip(), role), ("…", "muted")]
        kept.append((text, role))
        room -= size
    return kept


def seconds(ms: int) -> str:
    """A duration for the eye."""
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms // 60_000} min {ms % 60_000 // 1000} s"


def details(*parts: str) -> list[Piece]:
    """Muted facts behind a name, apart by dots."""
    return [(f" · {part}", "muted") for part in parts if part]


def _sign(block: Block, opened: bool) -> str:
    if block.running:
        return "◌"
    if block.status in _STATUS_ROLES:
        return "✕" if block.status == "failed" else "⊘"
    return "▾" if opened else "▸"


def _outcome(block: Block, summary: str) -> tuple[str, str]:
    """What came of a call, in a few words, and the role they have."""
    told = one_line(summary, 300)
    if block.status == "denied":
        refused = _NOT_IN_MODE.search(told)
        return (f"not in {refused[1].capitalize()} mode" if refused else _first_sentence(told)) or "refused", "warn"
    role = _STATUS_ROLES.get(block.status, "")
    return (told or block.status, role) if role else (told, "muted")


def _first_sentence(text: str) -> str:
    return text.removeprefix("Not run: ").partition(". ")[0].rstrip(".")


def _subject(block: Block, call: documents.ToolCallMetadata | None) -> str:
    """What a call is about; how much of a file was read is told by what came of it."""
    arguments = call.arguments if call else {}
    subject = block.subject or ("" if call else block.title)
    if call and call.result is not None and isinstance(path := arguments.get("target_file"), str):
        return named(path, 300)
    pattern = next((arguments[key] for key in ("query", "pattern") if isinstance(arguments.get(key), str)), "")
    if pattern and subject.startswith(pattern):
        subject = f'"{pattern}"{subject.removeprefix(pattern)}'
    return one_line(marked(subject), 300)


def tool_row(block: Block, width: int, opened: bool) -> list[Row]:
    """Any call that has no rows of its own."""
    document = block.document
    call = document.metadata if isinstance(document, documents.ToolCallDocument) else None
    name = one_line(call.tool_name if call else block.title or "tool", 40)
    subject = _subject(block, call).removeprefix(name).strip(" ·")
    told, role = _outcome(block, block.summary or (call.summary if call else ""))
    took = block.duration_ms or (call.duration_ms if call else 0)
    pieces: list[Piece] = [(name, _STATUS_ROLES.get(block.status, "tool"))]
    pieces += [(f" {subject}", "")] if subject else []
    pieces += [(" · ", "muted"), (told, role)] if told else []
    pieces += details(seconds(took) if took else "")
    rows = [head(_sign(block, opened), pieces, width)]
    if opened and call:
        rows += _lines(json_text(call.arguments), width, "muted", OPEN_ROWS)
        rows += _lines(
            result_text(call), width, "bad" if call.result and call.result.status == "error" else "", OPEN_ROWS
        )
    elif block.output:
        rows += live_lines(block, width)
    return rows


def json_text(value: object) -> str:
    """A JSON value to read: an object of plain values as `name: value` lines."""
    if isinstance(value, dict) and all(not isinstance(each, dict | list) for each in value.values()):
        return "\n".join(f"{name}: {each}" for name, each in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def result_text(call: documents.ToolCallMetadata) -> str:
    """What the model was told."""
    return json_text(call.result.data) if call.result is not None and call.result.data is not None else ""


def live_lines(block: Block, width: int) -> list[Row]:
    """The end of what a call that runs has printed so far."""
    return _lines(block.output, width, "muted", -LIVE_ROWS)


def _lines(text: str, width: int, role: str, limit: int) -> list[Row]:
    """Text below a head, at most `limit` lines of its start (of its end, when negative); the rest is counted."""
    lines = shortened(console(text).strip("\n"), 500).split("\n") if text.strip() else []
    hidden = len(lines) - abs(limit)
    shown = (lines[:limit] if limit > 0 else lines[limit:]) if hidden > 0 else lines
    rows = [row for line in shown for row in wrap([(line, role)], width, first=INDENT, rest=INDENT)]
    if hidden > 0:
        note = Row([*INDENT, (f"… {hidden:,} more lines", "muted")], lead=4)
        rows = [*rows, note] if limit > 0 else [note, *rows]
    return rows


def edit_row(block: Block, width: int, opened: bool) -> list[Row]:
    """An edit: its file and how large it is; opened, the lines."""
    document = block.document
    if not isinstance(document, documents.FileEdit):
        return [head("◌", [("edit", "tool"), (f" {named(block.subject or block.title, 300)}", "")], width)]
    edit = document.metadata
    failed = edit.status == "error"
    came: list[Piece] = []
    pieces: list[Piece] = [(edit.operation, "bad" if failed else "tool"), (f" {named(edit.file_path, 300)}", "")]
    if failed:
        told, role = _outcome(block, block.summary or "failed")
        pieces += [(" · ", "muted"), (told, role or "bad")]
    else:
        came = [(f"  +{edit.added}", "ok"), (f" −{edit.removed}", "bad")]
    rows = [head(_sign(block, opened), pieces, width, came=came)]
    if opened:
        for sign, line in changed_lines(edit)[:OPEN_ROWS]:
            role = {"+": "added", "-": "removed"}.get(sign, "muted")
            first: list[Piece] = [*INDENT, (f"{sign} ", role)]
            rows += wrap([(line, role)], width, first=first, rest=[*INDENT, ("  ", "")])
    if opened and document.content and (failed or edit.diff is None):
        rows += _lines(document.content, width, "bad" if failed else "muted", OPEN_ROWS)
    return rows


def changed_lines(edit: documents.FileEditMetadata) -> list[tuple[str, str]]:
    """The edit as `(sign, line)`, with three unchanged lines around."""
    if edit.diff is None:
        return []
    from difflib import unified_diff

    old, new = (clean(text).removesuffix("\n").split("\n") for text in (edit.diff.old_string, edit.diff.new_string))
    old, new = old[:2_000], new[:2_000]
    if not edit.diff.old_string:
        return [("+", line) for line in new]
    lines = list(unified_diff(old, new, n=3, lineterm=""))[3:]
    return [("⋯", "") if line.startswith("@@") else (line[:1], line[1:]) for line in lines if line]


def _changed(effects: str, room: int) -> str:
    """What a command changed, for its one line: as much of it as fits, and how much more there is."""
    if not effects.startswith("changed: "):
        return ""
    done = list(takewhile(lambda each: each not in SETTLED, effects.removeprefix("changed: ").split("; ")))
    for count in range(len(done), 0, -1):
        more = f" and {len(done) - count} more" if count < len(done) else ""
        text = "; ".join(one_line(each, 60) for each in done[:count]) + more
        if cell_len(text) <= room:
            return text
    return ""


def _own_lines(run: documents.TerminalCommandMetadata, width: int) -> list[Row]:
    """The end of what a command of the user's own wrote, and how to see the rest."""
    rows = _lines(run.output, width, "", -OWN_ROWS)
    if len(rows) <= OWN_ROWS:
        return rows
    hidden = own_lines(run) - OWN_ROWS
    more = f"… {hidden:,} more lines" if hidden > 0 else "… more of these lines"
    return [Row([*INDENT, (f"{more} ({ALL_OF_IT})", "muted")], lead=4), *rows[-OWN_ROWS:]]


def own_lines(run: documents.TerminalCommandMetadata) -> int:
    """How many lines a command wrote."""
    output = run.output.strip("\n")
    return output.count("\n") + bool(output)


def own(block: Block) -> documents.TerminalCommandMetadata | None:
    """What became of a command of the user's own; None: it is another block, or it goes on."""
    document = block.document
    run = document.metadata if isinstance(document, documents.TerminalCommand) else None
    return run if run is not None and run.tool_call_id.startswith("user_") else None


def command_row(block: Block, width: int, opened: bool) -> list[Row]:
    """A command: how it ended; opened or running, what it wrote; of one of the user's own at least the end of it."""
    document = block.document
    run = document.metadata if isinstance(document, documents.TerminalCommand) else None
    command = one_line(exposed(run.command if run else block.subject or block.title), 300)
    pieces: list[Piece] = [("$ ", "accent"), (command, "")]
    came: list[Piece] = []
    if run and run.exit_code is None:
        told, _ = _outcome(block, block.summary)
        pieces += [(f" · {told or 'did not run'}", "warn")]
    elif run:
        came = [(f" · exit {run.exit_code}", "bad" if run.exit_code else "ok"), *details(seconds(run.duration_ms))]
        came += details(_changed(run.effects, width - MARGIN - cells([*pieces, *came, *details("-")]) + 1))
    rows = [head(_sign(block, opened), pieces, width, came=came)]
    if opened and run:
        more = [exposed(run.command)] if "\n" in run.command.strip() else []
        rows += [row for text in more for row in _lines(text, width, "strong", OPEN_ROWS)]
        rows += _lines(run.output, width, "", OPEN_ROWS)
        rows += _lines(run.effects, width, "muted", OPEN_ROWS)
    elif mine := own(block):
        rows += _own_lines(mine, width)
    elif block.running and block.output:
        rows += live_lines(block, width)
    return rows
