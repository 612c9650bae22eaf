"""Pending hunks as a review of a pull request on GitHub: suggestions where its diff has the lines, else in the text.

The review is one request (`POST /repos/…/pulls/N/reviews`), which GitHub refuses as a whole if one comment names a line
that is not in the diff. So a hunk is a suggestion only if all of the lines that it replaces stand in one hunk of the
diff. The project is the pull request's last commit, so the lines of the base are those of the diff's right side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from core.cli.review_output.patch_text import render_patch
from core.protocol.review import ChangeDiff, DiffLine, Finding, Hunk
from core.text.counting import count
from core.text.patch_hunks import list_right_hunks

MAX_BODY: Final = 60_000  # characters; the API takes 65,536
MAX_COMMENTS: Final = 100
SUGGESTED: Final = "{} by agent-tui."
OUTSIDE: Final = "Not in the lines of this pull request, so it can't be a suggestion:"


class SuggestedLines(Struct, frozen=True):
    """New lines in the place of the lines `start` to `end` (1-indexed, inclusive) of a file."""

    start: int
    end: int
    lines: tuple[str, ...]


def list_diff_ranges(diff: str) -> dict[str, list[range]]:
    """List the lines of the right side that stand in a unified diff, by path, each hunk a range."""
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
    """Build the body of the request for the findings of a code review: a comment each where the diff has its lines,
    with the suggestion where their place is certain; else they stand in the text."""
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
    """List a suggestion for each hunk of an edited text file, None where the diff lacks its lines. {}: it is none."""
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
    """Yield the ways to say a hunk as lines in the place of others; none if it is about the end of lines."""
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
    """Return lines in a fence that is longer than any in them."""
    longest = max((len(fence) for line in lines for fence in re.findall(r"`{3,}", line)), default=2)
    mark = "`" * max(3, longest + 1)
    return "\n".join((f"{mark}{kind}", *lines, mark))


def _shorten(body: str) -> str:
    return body if len(body) <= MAX_BODY else f"{body[:MAX_BODY]}\n… (cut)"
