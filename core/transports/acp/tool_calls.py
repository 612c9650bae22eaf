"""Tool calls as an editor shows them: kind, title, locations, and the diffs of pending changes.

A diff is always from the user's file to the pending content, which is not on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from core.acp.content import (
    ShownContent,
    ShownDiff,
    TextContent,
    ToolCallContent,
    ToolCallLocation,
    ToolKind,
)
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.review import ChangeDiff
from core.records import decode_json
from core.shell.long_output import shorten_middle

MAX_TEXT: Final = 16_000  # characters of a result
MAX_TAIL: Final = 4_000  # characters of output while a call runs
MAX_TITLE: Final = 200
_KINDS: Final[Mapping[str, ToolKind]] = {
    "read_file": "read", "list_dir": "read", "fetch_rules": "read", "activate_skill": "read", "read_lints": "read",
    "read_terminal": "read", "read_probe_log": "read", "read_many_files": "read",
    "grep": "search", "glob_file_search": "search", "codebase_search": "search", "find_definition": "search",
    "find_references": "search", "search_tools": "search",
    "search_replace": "edit", "write": "edit", "edit_file": "edit", "multi_edit": "edit", "apply_patch": "edit",
    "edit_notebook": "edit", "rename_symbol": "edit", "probe_add": "edit", "probe_remove": "edit",
    "insert_lines": "edit", "undo_edit": "edit", "delete_file": "delete",
    "run_terminal_cmd": "execute", "run_python": "execute", "stop_terminal": "execute", "write_terminal": "execute",
    "reproduce": "execute", "debugger": "execute",
    "run_code": "execute", "web_fetch": "fetch", "web_search": "fetch",
    "switch_mode": "switch_mode",
    "todo_write": "think", "create_plan": "think", "update_plan": "think", "task": "think", "hypotheses_set": "think",
    "hypothesis_verdict": "think", "think": "think",
}  # fmt: skip
_PATHS: Final = ("target_file", "file_path", "path", "target_notebook", "target_directory")
_LINES: Final = ("offset", "start_line", "line")


class ShownCall(Struct, kw_only=True):
    """One call as the editor has it. `diffs` by path; `tail`: the end of its output so far."""

    id: str
    name: str
    kind: ToolKind
    title: str
    raw_input: Any
    locations: tuple[ToolCallLocation, ...] = ()
    text: str = ""
    tail: str = ""
    diffs: dict[str, ShownDiff] = field(default_factory=dict)

    def list_content(self) -> tuple[ToolCallContent, ...]:
        """Return all content of the call."""
        text = self.text or self.tail
        return (*self.diffs.values(), *([build_text(text)] if text else []))

    def list_locations(self, root: Path) -> tuple[ToolCallLocation, ...]:
        """Return the locations of the call, with the files that it changed."""
        known_paths = {location.path for location in self.locations}
        return (
            *self.locations,
            *(ToolCallLocation(path=p) for p in (str(root / q) for q in self.diffs) if p not in known_paths),
        )


def build_text(text: str) -> ShownContent:
    """Build text content; the middle of a long text is cut out."""
    return ShownContent(content=TextContent(text=shorten_middle(text, MAX_TEXT)))


def build_call(event: ev.ToolRequested, root: Path) -> ShownCall:
    """Build a call that was requested."""
    arguments = _parse_arguments(event.arguments)
    title = " ".join((event.summary or _find_text(arguments, ("command", "query", "pattern", "url"))).split())
    title = f"{event.tool}: {title}" if title and _find_kind(event.tool) != "execute" else title
    return ShownCall(
        id=event.call,
        name=event.tool,
        kind=_find_kind(event.tool),
        title=title[:MAX_TITLE] or event.tool,
        raw_input=arguments,
        locations=tuple(_iterate_locations(arguments, root)),
    )


def _find_kind(tool: str) -> ToolKind:
    return _KINDS.get(tool, "other")


def _parse_arguments(text: str) -> Any:
    try:
        return decode_json(text)
    except (msgspec.DecodeError, RecursionError):
        return {"text": text}


def _find_text(arguments: Any, names: tuple[str, ...]) -> str:
    values = (arguments.get(name) for name in names) if isinstance(arguments, dict) else ()
    return next((value for value in values if isinstance(value, str) and value), "")


def _iterate_locations(arguments: Any, root: Path) -> Iterator[ToolCallLocation]:
    if path := _find_text(arguments, _PATHS):
        line = next((arguments[name] for name in _LINES if isinstance(arguments.get(name), int)), 0)
        yield ToolCallLocation(path=str(root / path), line=line if line > 0 else None)


def describe_result(document: d.AnyDocument) -> tuple[str, str, Any] | None:
    """Return call id, text and raw output of a document about a call; None: it is about no call."""
    match document:
        case d.TerminalCommandDocument(metadata=ran):
            exit_note = "" if ran.exit_code is None else f"\n[exit code {ran.exit_code}]"
            effects = f"\n[{ran.effects}]" if ran.effects else ""
            raw = {"exitCode": ran.exit_code, "output": ran.output[-MAX_TEXT:]}
            return ran.tool_call_id, f"$ {ran.command}\n{ran.output}{exit_note}{effects}", raw
        case d.ToolCallDocument(metadata=called):
            data = called.result.data if called.result is not None else None
            text = data if isinstance(data, str) else msgspec.json.encode(data).decode() if data is not None else ""
            return called.tool_call_id, text[:MAX_TEXT], {"summary": called.summary}
        case d.FileEditDocument(metadata=edit):
            raw_output = {"status": edit.status, "added": edit.added, "removed": edit.removed}
            return edit.tool_call_id, document.content or "" if edit.status == "error" else "", raw_output
        case _:
            return None


def describe_answers(question_event: ev.QuestionAsked, answer_event: ev.QuestionAnswered) -> str:
    """Format questions with their answers."""
    answers_by_question = {question_answer.question: question_answer for question_answer in answer_event.answers}
    lines = list[str]()
    for question in question_event.questions:
        answer = answers_by_question.get(question.id)
        labels = [option.label for option in question.options if answer is not None and option.id in answer.options]
        words = [answer.text] if answer is not None and answer.text else []
        none = "Nobody answered." if answer_event.by == "program" else "Not answered."
        lines += [question.text, f"→ {', '.join(labels + words) or none}"]
    return "\n".join(lines)


def build_diff(change_diff: ChangeDiff, root: Path, *, hunk: int | None = None) -> ShownDiff | None:
    """Build the diff of a change, or of one `hunk` (an index) without the others. None: it has no lines to show
    (binary, too long, a link)."""
    change = change_diff.change
    if change.binary or change_diff.truncated or any(line.kind == "gap" for line in change_diff.lines):
        return None
    old = [line.text for line in change_diff.lines if line.kind != "added"]
    new_lines = (
        line for line in change_diff.lines if _is_in_new(line.kind, is_chosen=hunk is None or line.hunk == hunk)
    )
    return ShownDiff(
        path=str(root / change.path),
        old_text=None if change.operation == "create" and not change.renamed_from else _join(old),
        new_text=_join([line.text for line in new_lines]),
    )


def _is_in_new(kind: str, *, is_chosen: bool) -> bool:
    return kind in {"context", "added" if is_chosen else "removed"}


def _join(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
