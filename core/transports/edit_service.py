"""The edit engine as a filter: one JSON request a line in, one answer a line out. It calls no model and opens no file.

In: `{id, format, path, original, edit_text}`; out: `{id, result}` or `{id, error, message}`. `original` is null for a
file that does not exist. The edit benchmarks use it.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TextIO

from core.dialects.command import parse_command
from core.edits.formats.draft import apply_drafts
from core.edits.formats.lazy import apply_lazy
from core.edits.formats.line_plan import apply_line_plan, parse_line_plan
from core.edits.formats.patch import apply_patch
from core.edits.formats.search_replace import apply_search_replace, parse_blocks
from core.edits.formats.str_replace import apply_edits
from core.errors import AgentTuiError, ToolInputInvalid
from core.records import parse_json

Apply = Callable[[str | None, str, str], Any]


def _str_replace(original: str | None, edit: str, path: str) -> str:
    try:
        arguments = parse_json(edit)
    except (ValueError, RecursionError) as problem:
        raise ToolInputInvalid(f"The arguments are not valid JSON: {problem}.") from None
    return apply_edits(original, arguments).text


FORMATS: Final[Mapping[str, Apply]] = {
    "search_replace": lambda original, edit, path: apply_search_replace(original or "", edit, path).text,
    "search_replace_parse": lambda _, edit, __: [[b.path, b.search, b.replace] for b in parse_blocks(edit)],
    "str_replace": _str_replace,
    "existing_code": lambda original, edit, path: apply_lazy(original or "", edit, path),
    "line_plan": lambda original, edit, _: apply_line_plan(original or "", parse_line_plan(edit)),
    "file_edit_draft": apply_drafts,
    "patch": apply_patch,
    "command_block": lambda _, edit, __: parse_command(edit),
}


def run() -> int:
    """Answer standard input on standard output, both in UTF-8 whatever the locale."""
    with io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="surrogateescape", newline="\n") as requests:
        return serve(requests, sys.stdout)


def serve(requests: Iterable[str], answers: TextIO) -> int:
    """Answer every line in order; return 0."""
    for line in requests:
        if line.strip():
            answers.write(json.dumps(answer(line)) + "\n")
            answers.flush()
    return 0


def answer(line: str) -> dict[str, Any]:
    """Answer one request. A request that can't be parsed is answered with an error and the id null."""
    try:
        request = parse_json(line)
    except (ValueError, RecursionError) as problem:
        return _error(None, "request_invalid", f"The line is not valid JSON: {problem}.")
    if not isinstance(request, dict):
        return _error(None, "request_invalid", "The line is not a JSON object.")
    try:
        return {"id": request.get("id"), "result": _apply(request)}
    except AgentTuiError as error:
        return _error(request.get("id"), error.code, error.format_with_hint())
    except Exception as problem:  # one bad request must not end the service
        return _error(request.get("id"), "internal", f"{type(problem).__name__}: {problem}")


def _apply(request: Mapping[str, Any]) -> Any:
    apply = FORMATS.get(str(request.get("format")))
    if apply is None:
        format_names = ", ".join(FORMATS)
        raise ToolInputInvalid(f"No format {request.get('format')!r}; there are {format_names}.", code="format_unknown")
    original, edit, path = request.get("original"), request.get("edit_text"), request.get("path") or ""
    if not isinstance(path, str) or not (original is None or isinstance(original, str)):
        raise ToolInputInvalid("path and original are texts; original may be null.", code="request_invalid")
    return apply(original, edit if isinstance(edit, str) else json.dumps(edit), path)


def _error(number: Any, code: str, message: str) -> dict[str, Any]:
    return {"id": number, "error": code, "message": message}
