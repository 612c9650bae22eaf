"""Output of a review: pending changes as a patch and as a GitHub review, and the reasons why a change still waits.

A GitHub review is one request (`POST /repos/…/pulls/N/reviews`), which GitHub refuses as a whole if one comment names
a line that is not in the diff. So a hunk becomes a suggestion only if all of the lines that it replaces are in one hunk
of the diff. The project is the pull request's last commit, so the base lines are those of the diff's right side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from msgspec import Struct

from core.errors import PathRefused
from core.protocol import events as ev
from core.protocol.renames import format_change_path, list_changes
from core.protocol.review import Change, ChangeDiff, DiffLine, Finding, GitPreview, Hunk, Verdict
from core.shadow.content.blob_store import BlobStore
from core.text.counting import count
from core.text.display_names import display_name, to_one_line
from core.text.exposure import expose_line, expose_unseen
from core.text.patch_hunks import list_right_hunks
from core.text.well_formed import is_utf8
from core.workspace.file_names import to_os_name

LINE_END_SIGNS: Final = {"crlf": "␍␊", "lf": "␊"}
MAX_BODY: Final = 60_000  # characters; the API accepts 65,536
MAX_COMMENTS: Final = 100
SUGGESTED: Final = "{} by agent-tui."
OUTSIDE: Final = "Outside the lines of this pull request, so it can't be a suggestion:"


class LineForms(Struct, frozen=True):
    """The display form of a line's text, and the signs of line endings that differ from the other lines'.

    `FOR_PROGRAMS` stays as close to the text as possible, since `git apply` may read it.
    """

    text: Callable[[str], str] = expose_unseen
    ends: Mapping[str, str] = {}

    def format_line(self, line: DiffLine) -> str:
        """Return the text of a line in this form."""
        return self.text(line.text) + self.ends.get(line.eol, "")


FOR_PROGRAMS: Final = LineForms()


def render_git_preview(preview: GitPreview) -> Iterator[str]:
    """Render the effects of a git state. The caller comments the lines out for `git apply`, since commits are no change
    of files. Reference names are escaped as strictly as file names."""
    refusal_lines = (f"can't be accepted: {preview.refused}",) if preview.refused else ()
    yield from (expose_line(line, is_strict=True) for line in (*preview.moves, *refusal_lines, *preview.notes))
    yield from map(expose_line, preview.text.split("\n") if preview.text else ())
    if preview.clipped:
        yield "… there is more"


def render_patch(change_diff: ChangeDiff, forms: LineForms = FOR_PROGRAMS) -> Iterator[str]:
    """Render a change as git formats it, after its remarks."""
    yield from render_remarks(change_diff)
    yield from render_body(change_diff, forms)


def render_remarks(change_diff: ChangeDiff) -> Iterator[str]:
    """Render the remarks on a change. They precede the patch: inside of it, git would take them for its end."""
    change = change_diff.change
    parse_error = change.broken and f"does not parse: {change.broken}"
    conflict = change.conflict and f"conflict: {change.conflict}"
    note = "" if _is_pure_move(change) else change_diff.note
    for remark in (conflict, change.protected and _explain_protection(change), parse_error, expose_line(note)):
        if remark:
            yield f"# {display_name(change.path)}: {to_one_line(str(remark))}"


def render_body(change_diff: ChangeDiff, forms: LineForms = FOR_PROGRAMS) -> Iterator[str]:
    """Render the patch itself."""
    change = change_diff.change
    old, new = _quote_name("a", _get_old_path(change)), _quote_name("b", change.path)
    if change.binary and change.counted_state.blob != change.pending.blob:
        yield from (f"# {line}" for line in _describe_binary(change, old, new))  # only git can carry it
        return
    yield f"diff --git {old} {new}"
    yield from _format_modes(change)
    if not any(line.kind in {"added", "removed"} for line in change_diff.lines):
        return
    yield from _format_sides(change)
    for is_gap, group in groupby(change_diff.lines, key=lambda line: line.kind == "gap"):
        if not is_gap:
            yield from _format_hunk(list(group), forms)


def render_outside(change_diff: ChangeDiff) -> Iterator[str]:
    """Render a change with marks for invisible characters, commented out so that no program takes them for its text."""
    path = display_name(change_diff.change.path)
    yield f"# {path}: shown with marks, so it is not part of this patch. Exact bytes: agent-tui diff {path}"
    yield from (f"# {line}" for line in render_body(change_diff))


def has_marks(change_diff: ChangeDiff) -> bool:
    """Return True if a line of a change is displayed with marks for invisible characters."""
    return any(expose_unseen(line.text) != line.text for line in change_diff.lines)


def is_plain(change: Change, blobs: BlobStore) -> bool:
    """Return True if the files of a change are UTF-8 with LF line endings, so that its lines are their exact
    content."""
    sides = (blobs.get(state.blob) for state in (change.counted_state, change.pending) if state.kind != "absent")
    return all(b"\r" not in data and is_utf8(data) for data in sides)


def _describe_binary(change: Change, old: str, new: str) -> Iterator[str]:
    yield f"diff --git {old} {new}"
    yield from _format_modes(change)
    yield f"Binary files {old} and {new} differ"


def _explain_protection(change: Change) -> str:
    return change.risk if change.is_denied else f"protected: {change.risk}" if change.risk else "protected"


def _is_pure_move(change: Change) -> bool:
    return change.operation == "rename" and all(hunk.moves for hunk in change.hunks)


def _get_old_path(change: Change) -> str:
    return change.renamed_from if change.operation == "rename" else change.path


def _quote_bare_name(path: str) -> str:
    """Return a name without a side, as git writes it."""
    return _quote_name("a", path).replace("a/", "", 1)


def _quote_name(side: str, path: str) -> str:
    """Return a name as git writes it: quoted, byte by byte, if it has special characters."""
    name = f"{side}/{path}"
    if display_name(name) == name and not set(name) & set('"\\'):
        return name
    try:
        data = to_os_name(name)
    except PathRefused:  # no file can have this name; it is only printed
        data = name.encode("utf-8", "surrogatepass")
    letters = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}" for byte in data)
    return f'"{"".join(letters)}"'


def _format_sides(change: Change) -> Iterator[str]:
    old, new = _quote_name("a", _get_old_path(change)), _quote_name("b", change.path)
    for sign, name in (
        ("---", "/dev/null" if change.operation == "create" else old),
        ("+++", "/dev/null" if change.operation == "delete" else new),
    ):
        yield f"{sign} {name}{chr(9) if ' ' in name and name[0] != chr(34) else ''}"  # a tab ends a name with blanks


def render_links(change: Change, blobs: BlobStore) -> Iterator[str]:
    """Render a symbolic link as git does: a file that holds its target, without a newline. A file that becomes a link,
    or the reverse, has no lines."""
    sides = [file_state for file_state in (change.base, change.pending) if file_state.kind != "absent"]
    if not sides or any(side.kind != "symlink" for side in sides):
        return
    yield from _format_sides(change)
    old, new = ("0,0" if file_state.kind == "absent" else "1" for file_state in (change.base, change.pending))
    yield f"@@ -{old} +{new} @@"
    for sign, state in (("-", change.base), ("+", change.pending)):
        if state.kind == "symlink":
            yield f"{sign}{expose_line(blobs.get(state.blob).decode('utf-8', 'surrogateescape'))}"
            yield "\\ No newline at end of file"


def _format_modes(change: Change) -> Iterator[str]:
    before, after = (
        {"file": f"100{file_state.mode:03o}", "symlink": "120000", "absent": ""}[file_state.kind]
        for file_state in (change.counted_state, change.pending)
    )
    if change.operation == "create":
        yield f"new file mode {after}"
    elif change.operation == "delete":
        yield f"deleted file mode {before}"
    elif before != after:
        yield f"old mode {before}"
        yield f"new mode {after}"
    if change.operation == "rename":
        yield from ["similarity index 100%"] * _is_pure_move(change)
        yield f"rename from {_quote_bare_name(change.renamed_from)}"
        yield f"rename to {_quote_bare_name(change.path)}"


def _format_hunk(lines: Sequence[DiffLine], forms: LineForms) -> Iterator[str]:
    if not any(line.kind in {"added", "removed"} for line in lines):
        return
    old = [line.old for line in lines if line.kind != "added"]
    new = [line.new for line in lines if line.kind != "removed"]
    yield f"@@ -{old[0] if old else 0},{len(old)} +{new[0] if new else 0},{len(new)} @@"
    signs = {"added": "+", "removed": "-", "context": " "}
    for line in lines:
        yield f"{signs[line.kind]}{forms.format_line(line)}"
        if line.eol == "none":
            yield "\\ No newline at end of file"


class SuggestedLines(Struct, frozen=True):
    """New lines that replace the lines `start` to `end` (1-indexed, inclusive) of a file."""

    start: int
    end: int
    lines: tuple[str, ...]


def list_diff_ranges(diff: str) -> dict[str, list[range]]:
    """List the line ranges of the hunks on the right side of a unified diff, by path."""
    ranges: dict[str, list[range]] = {}
    for hunk in list_right_hunks(diff):
        ranges.setdefault(hunk.path, []).append(range(hunk.start, hunk.start + len(hunk.lines)))
    return ranges


def build_github_review(changes: Sequence[ChangeDiff], diff: str, commit: str) -> dict[str, Any]:
    """Build the body of the request for these changes. `diff`: of the pull request, `commit`: its last one."""
    ranges = list_diff_ranges(diff)
    comments: list[dict[str, Any]] = []
    outside: list[str] = []
    for change_diff in changes:
        suggestions = _list_suggestions(change_diff, ranges)
        for hunk_index, suggestion in suggestions.items():
            if suggestion is None or len(comments) == MAX_COMMENTS:
                outside += _render_hunk(change_diff, hunk_index)
            else:
                body = _fence("suggestion", suggestion.lines)
                comments.append(_build_comment(change_diff.change.path, suggestion.start, suggestion.end, body))
        if not suggestions:
            outside += [*render_patch(change_diff)]
    body = SUGGESTED.format(count("suggestion", len(comments)))
    if outside:
        body += f"\n\n{OUTSIDE}\n\n{_fence('diff', outside)}"
    return {"commit_id": commit, "event": "COMMENT", "body": _shorten(body), "comments": comments}


def build_findings_review(findings: Sequence[Finding], diff: str, commit: str) -> dict[str, Any]:
    """Build the body of the request for the findings of a code review. A finding is a comment where the diff has its
    lines, with its suggestion if the position is certain; otherwise it is part of the body."""
    ranges = list_diff_ranges(diff)
    comments: list[dict[str, Any]] = []
    outside: list[str] = []
    for finding in findings:
        is_there = any(
            finding.start in line_range and finding.end in line_range for line_range in ranges.get(finding.path, [])
        )
        text = f"**{finding.severity}: {finding.title}**\n\n{finding.text}".rstrip()
        if not is_there or finding.doubt or len(comments) == MAX_COMMENTS:
            outside.append(f"{text}\n\n`{finding.place}`" if finding.place else text)
            continue
        suggestion = (
            "" if finding.suggestion is None else f"\n\n{_fence('suggestion', finding.suggestion.split(chr(10)))}"
        )
        comments.append(_build_comment(finding.path, finding.start, finding.end, text + suggestion))
    body = "\n\n".join([SUGGESTED.format(count("finding", len(findings))), *outside])
    return {"commit_id": commit, "event": "COMMENT", "body": _shorten(body), "comments": comments}


def _list_suggestions(change_diff: ChangeDiff, ranges: Mapping[str, list[range]]) -> dict[int, SuggestedLines | None]:
    """List a suggestion for every hunk of an edited text file, None where the diff lacks its lines. {}: it is no edited
    text file."""
    change = change_diff.change
    if change.operation != "edit" or change.binary or not change.hunks:
        return {}
    diff_ranges = ranges.get(change.path, [])
    suggestions: dict[int, SuggestedLines | None] = {}
    for hunk_index, hunk in enumerate(change.hunks):
        choices = _place_hunk(hunk, hunk_index, change_diff.lines)
        suggestions[hunk_index] = next(
            (choice for choice in choices if any(choice.start in r and choice.end in r for r in diff_ranges)), None
        )
    return suggestions


def _place_hunk(hunk: Hunk, hunk_index: int, lines: Sequence[DiffLine]) -> Iterator[SuggestedLines]:
    """Yield the ways to express a hunk as a replacement of lines; none for a hunk about line endings."""
    hunk_lines = [line for line in lines if line.hunk == hunk_index]
    if any(line.eol for line in hunk_lines):
        return
    added_lines = tuple(line.text for line in hunk_lines if line.kind == "added")
    removed_line_numbers = [line.old for line in hunk_lines if line.kind == "removed"]
    if removed_line_numbers:
        yield SuggestedLines(removed_line_numbers[0], removed_line_numbers[-1], added_lines)
        return
    context_lines = {line.old: line.text for line in lines if line.kind == "context" and not line.eol}
    above, below = hunk.old_start - 1, hunk.old_start
    if above in context_lines:
        yield SuggestedLines(above, above, (context_lines[above], *added_lines))
    if below in context_lines:
        yield SuggestedLines(below, below, (*added_lines, context_lines[below]))


def _build_comment(path: str, start: int, end: int, body: str) -> dict[str, Any]:
    comment: dict[str, Any] = {"path": path, "line": end, "side": "RIGHT", "body": _shorten(body)}
    if start < end:
        comment |= {"start_line": start, "start_side": "RIGHT"}
    return comment


def _render_hunk(change_diff: ChangeDiff, hunk_index: int) -> list[str]:
    signs = {"added": "+", "removed": "-"}
    lines = [
        f"{signs[line.kind]}{line.text}" for line in change_diff.lines if line.hunk == hunk_index and line.kind in signs
    ]
    hunk = change_diff.change.hunks[hunk_index]
    header = f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@"
    return [f"--- a/{change_diff.change.path}", f"+++ b/{change_diff.change.path}", header, *lines]


def _fence(kind: str, lines: Sequence[str]) -> str:
    """Fence lines with more backticks than any of them has."""
    longest = max((len(fence) for line in lines for fence in re.findall(r"`{3,}", line)), default=2)
    mark = "`" * max(3, longest + 1)
    return "\n".join((f"{mark}{kind}", *lines, mark))


def _shorten(body: str) -> str:
    return body if len(body) <= MAX_BODY else f"{body[:MAX_BODY]}\n… (cut)"


def collect_errors(events: Iterable[ev.AnyEvent]) -> dict[str, str]:
    """Return the errors of verdicts by path; under "" those without a path."""
    errors: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, ev.ErrorRaised):
            text = to_one_line(f"{event.message} {event.hint}".strip())
            errors.setdefault(event.path, []).append(text)
    return {path: " ".join(dict.fromkeys(texts)) for path, texts in errors.items()}


def list_left(
    changes: Mapping[str, Change], requested_paths: Sequence[str], errors: Mapping[str, str], verdict: Verdict
) -> list[tuple[str, str]]:
    """Return every change that is still pending of the `requested_paths` ("all", or paths), with the reason."""
    return [
        (format_change_path(change), explain_left(change, errors, verdict))
        for change in list_changes(changes)
        if "all" in requested_paths or {change.path, change.renamed_from} & set(requested_paths)
    ]


def explain_left(change: Change, errors: Mapping[str, str], verdict: Verdict) -> str:
    """Return why a change is still pending: an error, a conflict, or its protection."""
    names = [name for name in (change.path, change.renamed_from) if name]
    if error_text := " ".join(errors[name] for name in names if name in errors):
        return error_text
    if reason := change.conflict or (change.risk if change.is_denied else ""):
        return to_one_line(reason)
    if change.protected:
        verb = "accepted" if verdict == "accept" else "rejected"
        risk_note = f"{change.risk}; " if change.risk else ""
        return f"protected: {risk_note}it is {verb} only by name"
    return errors.get("", "") or "nothing was done; see the message above"


def format_left(path: str, reason: str) -> str:
    """Return the line for a path that is still pending."""
    return f"left      {path}{f' ({reason})' if reason else ''}"


def format_unknown(name: str) -> str:
    """Return the line for a name that matches nothing pending."""
    return format_left(display_name(name), "not pending: agent-tui review --print lists what is")
