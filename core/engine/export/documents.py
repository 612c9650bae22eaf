"""An export as JSON, Markdown or one HTML page.

The page needs nothing else: no script, no other file, nothing is loaded. All foreign text is escaped; in the Markdown
of answers, HTML appears as text and pictures as links. In Markdown, the words of models and commands are inside fences
that they can't close, or are the models' own Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final, assert_never

from core.engine.export.benchmark_files import (
    describe_left_out,
    format_atif,
    format_mini,
    format_predictions,
    read_patch,
)
from core.engine.export.blocks import (
    SIGNS,
    Block,
    build_diff_block,
    describe_turn,
    format_change_title,
    format_line,
    list_change_facts,
    list_facts,
    list_turn_blocks,
    split_changes,
)
from core.engine.export.record import ExportedChange, ExportedSession, ExportedTurn, format_json, read_export
from core.errors import StateError
from core.patterns import compile_lazily
from core.protocol.queries import ExportAnswer, ExportFormat, build_export_name
from core.protocol.review import DiffLine
from core.sessions.log import SessionLog
from core.text.markup import choose_fence

_SPECIAL = compile_lazily(r"([\\`*_\[\]<>#|~])")
WOKEN: Final = "The agent went on: a background command had ended."
OPEN_LINES: Final = 14  # longer code is folded
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE: Final = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c1e21; --soft: #667; --box: #f4f5f7; --line: #d8dbe0;
  --add: #d9f2df; --del: #fbe0de; --ok: #19703a; --no: #a8261c; --wait: #8a5a00; --mine: #e8eefb; }
@media (prefers-color-scheme: dark) { :root { --bg: #16181c; --fg: #dfe2e7; --soft: #969cab; --box: #1f2228;
  --line: #343841; --add: #173824; --del: #452222; --ok: #6fd08c; --no: #f08a80; --wait: #e3b341; --mine: #222c40; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1rem 4rem; background: var(--bg); color: var(--fg);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .3rem; font-family: ui-monospace, monospace; }
.soft, .facts { color: var(--soft); font-size: .88rem; } .facts { margin: 0 0 .5rem; padding-left: 1.1rem; }
.prompt { background: var(--mine); border-radius: .5rem; padding: .7rem 1rem; white-space: pre-wrap; margin: 2rem 0 0; }
.done { margin: .15rem 0; color: var(--soft); font: .85rem/1.5 ui-monospace, monospace; }
pre, .diff { background: var(--box); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem;
  overflow-x: auto; font: .82rem/1.5 ui-monospace, monospace; margin: .6rem 0; }
.diff { padding: .4rem 0; } .diff div { padding: 0 .8rem; white-space: pre; min-width: max-content; }
.added { background: var(--add); } .removed { background: var(--del); } .gap { color: var(--soft); }
summary { cursor: pointer; font: .85rem/1.6 ui-monospace, monospace; }
code { font-family: ui-monospace, monospace; font-size: .9em; } table { border-collapse: collapse; }
td, th { border: 1px solid var(--line); padding: .2rem .6rem; }
.accept { color: var(--ok); } .reject { color: var(--no); }
.wait { color: var(--wait); } footer { margin-top: 4rem; color: var(--soft); font-size: .8rem; }
@media print { details > * { display: block; } }
"""


def export_session(
    directory: Path, export_format: ExportFormat, log: SessionLog | None = None, instance: str = ""
) -> ExportAnswer:
    """Return the session in a directory, or from its open log, as a document. `instance`: the id of a benchmark's task.
    Raises `StateError`."""
    session, notes = read_export(directory, log), tuple[str, ...]()
    match export_format:
        case "json":
            text = format_json(session)
        case "md":
            text = format_markdown(session)
        case "html":
            text = format_page(session)
        case "atif":
            text = format_atif(directory, log)
        case "mini" | "preds":
            patch = read_patch(directory, log)
            notes = describe_left_out(patch)
            is_mini = export_format == "mini"
            text = format_mini(directory, log, patch, instance) if is_mini else format_predictions(patch, instance)
        case _:
            assert_never(export_format)
    return ExportAnswer(name=build_export_name(session.title, export_format), text=text, notes=notes)


def write_export(answer: ExportAnswer, target: Path, *, replace: bool = False) -> Path:
    """Write a document to a new file, or into a directory under its own name. Return the path. Raises `StateError`: the
    file exists already and is not to be replaced, or it can't be written."""
    path = target.expanduser()
    path = path / answer.name if path.is_dir() else path
    try:
        with path.open("w", encoding="utf-8") if replace else path.open("x", encoding="utf-8") as file:
            file.write(answer.text)
    except FileExistsError:
        raise StateError(f"{path} already exists.", hint="Choose another file.", code="file_exists") from None
    except OSError as problem:
        raise StateError(f"{path} can't be written: {problem.strerror}.", hint="Choose another place.") from problem
    return path


def format_markdown(session: ExportedSession) -> str:
    """Return an export as Markdown."""
    parts = [f"# {_escape_markdown(session.title)}", " · ".join(map(_escape_markdown, list_facts(session)))]
    for number, turn in enumerate(session.turns, 1):
        parts += _write_markdown_turn(number, turn)
    for heading, changes in split_changes(session.changes).items():
        parts.append(f"## {heading}")
        for change in changes:
            parts.append(f"### {_escape_markdown(format_change_title(change))}")
            parts.append("\n".join(f"- {_escape_markdown(fact)}" for fact in list_change_facts(change)))
            if (block := build_diff_block(change)) is not None:
                parts.append(_write_markdown_block(block))
    return "\n\n".join(parts) + "\n"


def _quote_prompt(prompt: str) -> str:
    return "\n".join(f"> {_escape_markdown(' '.join(line.split()))}".rstrip() for line in prompt.splitlines())


def _write_markdown_turn(number: int, turn: ExportedTurn) -> Iterator[str]:
    yield f"## {number}. {_escape_markdown(describe_turn(turn))}"
    if turn.cause == "job":
        yield f"*{_escape_markdown(WOKEN)}*"
    else:
        yield _quote_prompt(turn.prompt)
    lines = list[str]()
    for block in list_turn_blocks(turn):
        if block.kind == "line":
            lines.append(f"- {_escape_markdown(block.text)}")
            continue
        if lines:
            yield "\n".join(lines)
            lines.clear()
        yield _write_markdown_block(block)
    if lines:
        yield "\n".join(lines)


def _write_markdown_block(block: Block) -> str:
    if block.kind == "prose":
        return block.text.strip()
    if block.kind == "diff":
        rows = (f"@@ {row.text} @@" if row.kind == "gap" else f"{SIGNS[row.kind]}{row.text}" for row in block.rows)
        return _write_fence("\n".join(rows), "diff")
    code_block = _write_fence(block.text.rstrip("\n"), block.language)
    return f"{_write_code_span(block.caption)}\n\n{code_block}" if block.caption else code_block


def _write_fence(text: str, language: str) -> str:
    marks = choose_fence(text)
    return f"{marks}{re.sub(r'[^A-Za-z0-9+#-]', '', language)}\n{text}\n{marks}"


def _write_code_span(text: str) -> str:
    line = format_line(text)
    marks = choose_fence(line, 1)
    return f"{marks} {line} {marks}" if "`" in line else f"`{line}`"


def _escape_markdown(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", format_line(text))


def format_page(session: ExportedSession) -> str:
    """Return an export as one HTML page."""
    title = escape(session.title)
    return "".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="referrer" content="no-referrer"><title>{title}</title><style>{_STYLE}</style></head><body>',
            f'<h1>{title}</h1><p class="soft">{escape(" · ".join(list_facts(session)))}</p>\n',
            *(_format_turn(turn) for turn in session.turns),
            *_format_changes(session),
            "<footer>Exported by agent-tui. Keys are masked; check before you share.</footer></body></html>\n",
        )
    )


def _format_turn(turn: ExportedTurn) -> str:
    blocks = "".join(map(_format_block, list_turn_blocks(turn)))
    subtitle = f'<p class="soft">{escape(describe_turn(turn))}</p>'
    prompt = (
        f'<p class="soft">{WOKEN}</p>' if turn.cause == "job" else f'<div class="prompt">{escape(turn.prompt)}</div>'
    )
    return f"<section>{prompt}{subtitle}{blocks}</section>\n"


def _format_changes(session: ExportedSession) -> Iterator[str]:
    for heading, changes in split_changes(session.changes).items():
        yield f"<h2>{heading}</h2>"
        yield from map(_format_change, changes)


def _format_change(change: ExportedChange) -> str:
    facts = "".join(f"<li>{escape(fact)}</li>" for fact in list_change_facts(change))
    block = build_diff_block(change)
    lines = _format_block(block) if block is not None else ""
    title = f'<h3 class="{change.verdict or "wait"}">{escape(format_change_title(change))}</h3>'
    return f'{title}<ul class="facts">{facts}</ul>{lines}\n'


def _format_block(block: Block) -> str:
    match block.kind:
        case "prose":
            return _load_renderer().render(block.text)  # type: ignore[no-any-return]  # it is text
        case "line":
            return f'<p class="done">{escape(block.text)}</p>'
        case "diff":
            return f'<div class="diff">{"".join(map(_format_row, block.rows))}</div>'
        case _:
            return _format_code(block)


def _format_code(block: Block) -> str:
    code = f"<pre>{escape(block.text)}</pre>" if block.text.strip() else ""
    if not block.caption:
        return code
    is_open = " open" if block.text.count("\n") < OPEN_LINES else ""
    return f"<details{is_open}><summary>{escape(block.caption)}</summary>{code}</details>"


def _format_row(row: DiffLine) -> str:
    return f'<div class="{row.kind}">{SIGNS[row.kind]}{escape(row.text)}</div>'


@cache
def _load_renderer() -> Any:
    from markdown_it import MarkdownIt

    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    renderer.add_render_rule("image", _render_picture)
    return renderer


def _render_picture(_: Any, tokens: Any, index: int, *__: Any) -> str:
    """Render a picture as its text, since the page loads nothing."""
    return f"[{escape(tokens[index].content or 'picture')}: {escape(str(tokens[index].attrGet('src') or ''))}]"
