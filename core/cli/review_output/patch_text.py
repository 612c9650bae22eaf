"""Pending changes as a unified diff that `git apply` takes.

Names and lines come from commands and models: what a terminal would act on is written as what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from core.errors import PathRefused
from core.protocol.review import Change, ChangeDiff, DiffLine, GitPreview
from core.shadow.content.blob_store import BlobStore
from core.text.display_names import display_name, to_one_line
from core.text.exposure import expose_line, expose_unseen
from core.text.well_formed import is_utf8
from core.workspace.file_names import to_os_name

LINE_END_SIGNS: Final = {"crlf": "␍␊", "lf": "␊"}


class LineForms(Struct, frozen=True):
    """The form of a line's text, and the sign for an end of a line that is not that of the others.

    The form for programs is as near to the text as it can be: there `git apply` may read it.
    """

    text: Callable[[str], str] = expose_unseen
    ends: Mapping[str, str] = {}

    def format_line(self, line: DiffLine) -> str:
        """Return the text of a line in this form."""
        return self.text(line.text) + self.ends.get(line.eol, "")


FOR_PROGRAMS: Final = LineForms()


def render_git_preview(preview: GitPreview) -> Iterator[str]:
    """Render the effects of a state of git, to stand behind a mark that `git apply` passes over: commits are no change
    of files. Names of references are seen as strictly as those of files."""
    refusal_lines = (f"can't be accepted: {preview.refused}",) if preview.refused else ()
    yield from (expose_line(line, is_strict=True) for line in (*preview.moves, *refusal_lines, *preview.notes))
    yield from map(expose_line, preview.text.split("\n") if preview.text else ())
    if preview.clipped:
        yield "… there is more"


def render_patch(change_diff: ChangeDiff, forms: LineForms = FOR_PROGRAMS) -> Iterator[str]:
    """Render one change as git writes it, behind what else there is to say."""
    yield from render_remarks(change_diff)
    yield from render_body(change_diff, forms)


def render_remarks(change_diff: ChangeDiff) -> Iterator[str]:
    """Render what there is to say of a change. It comes before the patch: within, git would take it for an end."""
    change = change_diff.change
    parse_error = change.broken and f"does not parse: {change.broken}"
    conflict = change.conflict and f"conflict: {change.conflict}"
    note = "" if _only_moved(change) else change_diff.note
    for remark in (conflict, change.protected and _explain_protection(change), parse_error, expose_line(note)):
        if remark:
            yield f"# {display_name(change.path)}: {to_one_line(str(remark))}"


def render_body(change_diff: ChangeDiff, forms: LineForms = FOR_PROGRAMS) -> Iterator[str]:
    """Render the patch itself."""
    change = change_diff.change
    old, new = _name("a", _old_name(change)), _name("b", change.path)
    if change.binary and change.counted_state.blob != change.pending.blob:
        yield from (f"# {line}" for line in _describe_binary(change, old, new))  # no patch holds it but git's own
        return
    yield f"diff --git {old} {new}"
    yield from _modes(change)
    if not any(line.kind in {"added", "removed"} for line in change_diff.lines):
        return
    yield from _sides(change)
    for is_gap, group in groupby(change_diff.lines, key=lambda line: line.kind == "gap"):
        if not is_gap:
            yield from _hunk(list(group), forms)


def render_outside(change_diff: ChangeDiff) -> Iterator[str]:
    """Render a change with marks for characters that can't be seen, which no program may take for its text: git passes
    over all of it."""
    path = display_name(change_diff.change.path)
    yield f"# {path}: shown with marks, so it is no part of this patch. To the byte: agent-tui diff . {path}"
    yield from (f"# {line}" for line in render_body(change_diff))


def has_marks(change_diff: ChangeDiff) -> bool:
    """Return True if a line of a change is shown with marks for what can't be seen in it."""
    return any(expose_unseen(line.text) != line.text for line in change_diff.lines)


def is_plain(change: Change, blobs: BlobStore) -> bool:
    """Return True if the lines of a change in UTF-8, each with a LF, are what its files hold."""
    sides = (blobs.get(state.blob) for state in (change.counted_state, change.pending) if state.kind != "absent")
    return all(b"\r" not in data and is_utf8(data) for data in sides)


def _describe_binary(change: Change, old: str, new: str) -> Iterator[str]:
    yield f"diff --git {old} {new}"
    yield from _modes(change)
    yield f"Binary files {old} and {new} differ"


def _explain_protection(change: Change) -> str:
    return change.risk if change.is_denied else f"protected: {change.risk}" if change.risk else "protected"


def _only_moved(change: Change) -> bool:
    return change.operation == "rename" and all(hunk.moves for hunk in change.hunks)


def _old_name(change: Change) -> str:
    return change.renamed_from if change.operation == "rename" else change.path


def _bare(path: str) -> str:
    """A name without a side, as git writes it."""
    return _name("a", path).replace("a/", "", 1)


def _name(side: str, path: str) -> str:
    """A name as git writes it: in quotes, byte by byte, when it has anything in it that is not to be taken as it is."""
    name = f"{side}/{path}"
    if display_name(name) == name and not set(name) & set('"\\'):
        return name
    try:
        data = to_os_name(name)
    except PathRefused:  # no file has this name, so that only its being printed matters
        data = name.encode("utf-8", "surrogatepass")
    letters = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}" for byte in data)
    return f'"{"".join(letters)}"'


def _sides(change: Change) -> Iterator[str]:
    old, new = _name("a", _old_name(change)), _name("b", change.path)
    for sign, name in (
        ("---", "/dev/null" if change.operation == "create" else old),
        ("+++", "/dev/null" if change.operation == "delete" else new),
    ):
        yield f"{sign} {name}{chr(9) if ' ' in name and name[0] != chr(34) else ''}"  # where a name with blanks ends


def render_links(change: Change, blobs: BlobStore) -> Iterator[str]:
    """Render a symbolic link as git does: a file with its target in it and no newline; what becomes one is only
    told."""
    sides = [file_state for file_state in (change.base, change.pending) if file_state.kind != "absent"]
    if not sides or any(side.kind != "symlink" for side in sides):
        return
    yield from _sides(change)
    old, new = ("0,0" if file_state.kind == "absent" else "1" for file_state in (change.base, change.pending))
    yield f"@@ -{old} +{new} @@"
    for sign, state in (("-", change.base), ("+", change.pending)):
        if state.kind == "symlink":
            yield f"{sign}{expose_line(blobs.get(state.blob).decode('utf-8', 'surrogateescape'))}"
            yield "\\ No newline at end of file"


def _modes(change: Change) -> Iterator[str]:
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
        yield from ["similarity index 100%"] * _only_moved(change)
        yield f"rename from {_bare(change.renamed_from)}"
        yield f"rename to {_bare(change.path)}"


def _hunk(lines: Sequence[DiffLine], forms: LineForms) -> Iterator[str]:
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
