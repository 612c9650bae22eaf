"""An export as Markdown. What models and commands said stands in fences that it can't close, or is theirs to format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.engine.export.blocks import (
    SIGNS,
    Block,
    build_diff_block,
    describe_turn,
    format_line,
    list_change_facts,
    list_facts,
    list_turn_blocks,
    split_changes,
    title_change,
)
from core.engine.export.record import ExportedSession, ExportedTurn

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")


def format_markdown(session: ExportedSession) -> str:
    """Return an export as Markdown."""
    parts = [f"# {_escape(session.title)}", " · ".join(map(_escape, list_facts(session)))]
    for number, turn in enumerate(session.turns, 1):
        parts += _format_turn(number, turn)
    for heading, changes in split_changes(session.changes).items():
        parts.append(f"## {heading}")
        for change in changes:
            parts.append(f"### {_escape(title_change(change))}")
            parts.append("\n".join(f"- {_escape(fact)}" for fact in list_change_facts(change)))
            if (block := build_diff_block(change)) is not None:
                parts.append(_format_block(block))
    return "\n\n".join(parts) + "\n"


def _format_turn(number: int, turn: ExportedTurn) -> Iterator[str]:
    yield f"## {number}. {_escape(describe_turn(turn))}"
    yield "\n".join(f"> {_escape(' '.join(line.split()))}".rstrip() for line in turn.prompt.splitlines())
    lines = list[str]()
    for block in list_turn_blocks(turn):
        if block.kind == "line":
            lines.append(f"- {_escape(block.text)}")
            continue
        if lines:
            yield "\n".join(lines)
            lines.clear()
        yield _format_block(block)
    if lines:
        yield "\n".join(lines)


def _format_block(block: Block) -> str:
    if block.kind == "prose":
        return block.text.strip()
    if block.kind == "diff":
        rows = (f"@@ {row.text} @@" if row.kind == "gap" else f"{SIGNS[row.kind]}{row.text}" for row in block.rows)
        return _fence("\n".join(rows), "diff")
    code_block = _fence(block.text.rstrip("\n"), block.language)
    return f"{_code_span(block.caption)}\n\n{code_block}" if block.caption else code_block


def _fence(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{re.sub(r'[^A-Za-z0-9+#-]', '', language)}\n{text}\n{marks}"


def _code_span(text: str) -> str:
    line = format_line(text)
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    marks = "`" * (longest + 1)
    return f"{marks} {line} {marks}" if longest else f"`{line}`"


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", format_line(text))
