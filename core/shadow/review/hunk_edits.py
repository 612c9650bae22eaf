"""The user's own edits of a hunk before its verdict: splitting, editing, commenting.

A split changes the boundaries of hunks, never the bytes. An edit changes only the pending bytes: the base, which a
rejection restores, stays. Lines that are not edited preserve their exact bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from core.errors import CommandRejected
from core.ids import new_id
from core.languages import detect_language
from core.notebooks.editing import replace_source
from core.notebooks.notebook import Cell, Notebook, find_notebook, find_touched
from core.protocol.events import ChangeRevised, HunkCommented, HunkEdited
from core.protocol.review import Change, Comment, Hunk, Origin
from core.shadow.content.contents import ChangeSides, narrow_change
from core.shadow.diff.alignment import Region, find_pieces, find_regions
from core.shadow.diff.diff_lines import build_excerpt
from core.shadow.diff.hunk_parts import HunkSide, find_parts
from core.shadow.diff.hunks import halve_hunk, is_divisible, join_hunks, replace_hunk
from core.shadow.diff.text_lines import (
    Encoding,
    decode_line,
    detect_encoding,
    encode_line,
    find_display_encodings,
    find_newline,
    has_bom,
    split_lines,
)
from core.shadow.review.conflicts import describe_other_conflict, include_competing_versions
from core.shadow.review.rename_pairs import recount_hunks
from core.shadow.review.verdict_plan import ReviewPart, build_pending_events
from core.syntax.grammars import is_known_language
from core.text.legacy_encodings import is_in_unknown_encoding

_BOM = "\ufeff"


class HunkText(NamedTuple):
    """The editable text of a hunk, with LF endings, the number of its first line, and its language ("" = unknown)."""

    text: str
    start: int
    language: str


class HunkEdits(ReviewPart):
    """Splits, edits and comments of hunks, for the pending changes of one session."""

    def split(self, path: str, hunk_id: str, line: int = 0) -> Change:
        """Split a hunk into several; see `HunkSplit`. A rename becomes a new file and a deletion. Raises
        `CommandRejected` if it cannot be divided there."""
        (before, hunk), change = self.find_hunk(path, hunk_id), self.divide(path, hunk_id, line)
        known_ids = {other.id for other in before.hunks if other is not hunk}
        parts = () if hunk.moves else tuple(part.id for part in change.hunks if part.id not in known_ids)
        self.emit(ChangeRevised(change=change, parts=parts))
        later = (part for part in change.hunks if hunk.moves or part.old_start >= hunk.old_start)
        self._transfer_comment(path, hunk_id, next(later))
        return self.state.changes[path]

    def join(self, path: str, hunk_id: str) -> Change:
        """Make one hunk again of the parts that the last split of a hunk made, as far as they are pending; their
        comments become one. Raises `CommandRejected` if it is no such part."""
        change, _ = self.find_hunk(path, hunk_id)
        parts = self.find_joinable(path, hunk_id)
        hunks = join_hunks(change.hunks, parts, *self.contents.read_change(change))
        index, comments = change.hunks.index(parts[0]), dict(self.state.comments)
        self.emit(ChangeRevised(change=replace(change, hunks=hunks)))
        texts = [comments[path, part.id].text for part in parts if (path, part.id) in comments]
        for part in parts:
            if (path, part.id) in comments:
                self.comment(path, part.id, "")
        if texts:
            self.comment(path, hunks[index].id, "\n".join(texts))
        return self.state.changes[path]

    def find_joinable(self, path: str, hunk_id: str) -> tuple[Hunk, ...]:
        """Return the hunks that `join` makes one of. Raises `CommandRejected` if there are none."""
        self.find_hunk(path, hunk_id)
        if not (parts := self.state.find_joinable(path, hunk_id)):
            raise CommandRejected("This hunk is not part of a split one.", code="not_joinable")
        return parts

    def divide(self, path: str, hunk_id: str, line: int = 0) -> Change:
        """Return the result of `split` without recording it. Raises `CommandRejected` if the hunk cannot be divided
        there."""
        change, hunk = self.find_hunk(path, hunk_id)
        if hunk.moves:
            return replace(recount_hunks(self.contents, change, None), apart=True)
        sides = self.contents.read_change(change)
        if find_notebook(sides[1] or sides[0]) is not None:
            raise CommandRejected(
                "A cell is accepted or rejected as a whole.", hint="Edit it instead.", code="not_divisible"
            )
        every = change.hunks
        if _is_text(change) and is_divisible(*sides):
            encoding = detect_encoding(sides[0] or sides[1])
            old = HunkSide(path, split_lines(sides[0]), hunk.old_start - 1, hunk.old_lines, encoding)
            new = HunkSide(path, split_lines(sides[1]), hunk.new_start - 1, hunk.new_lines, encoding)
            parts = _divide_hunk(old, new, line)
            every = replace_hunk(change.hunks, hunk, parts, old.own_lines, new.own_lines)
        if len(every) <= len(change.hunks):
            hint = "It is one line, one statement or no text. It can still be split at a line that you name."
            raise CommandRejected("This hunk can't be split.", hint=hint, code="not_divisible")
        return replace(change, hunks=every)

    def read_text(self, path: str, hunk_id: str) -> HunkText:
        """Return the new side of a hunk, or the source of its cell in a notebook. Raises `CommandRejected` if it is no
        text."""
        change, hunk = self.find_hunk(path, hunk_id)
        _require_text(change, hunk)
        new = self.contents.read(change.pending)
        if (notebook := find_notebook(new)) is not None:
            cell = _find_cell(notebook, hunk)
            return HunkText(cell.source, 1, notebook.language if cell.kind == "code" else "markdown")
        lines = _slice_side(new, hunk)
        text = "".join(_decode_shown(line, find_display_encodings(new)[0]) for line in lines)
        return HunkText(text, hunk.new_start, detect_language(path))

    def edit(self, path: str, hunk_id: str, text: str) -> Change:
        """Replace the new side of a hunk by `text`. Return the resulting change (without hunks: nothing is pending any
        more). Raises `CommandRejected` if it is no text."""
        change, hunk = self.find_hunk(path, hunk_id)
        _require_text(change, hunk)
        old, new = self.contents.read_change(change)
        before = _slice_side(new, hunk)
        if (notebook := find_notebook(new)) is not None:
            file_lines = split_lines(replace_source(notebook, _find_cell(notebook, hunk), text.replace("\r\n", "\n")))
            end = hunk.new_start - 1 + hunk.new_lines + len(file_lines) - len(split_lines(new))
            lines = file_lines[hunk.new_start - 1 : end]
        else:
            at_end = hunk is change.hunks[-1] and hunk.new_start - 1 + hunk.new_lines == len(split_lines(new))
            lines = _encode_lines(text, new or old, before, at_end=at_end)
            file_lines = split_lines(new)
            file_lines[hunk.new_start - 1 : hunk.new_start - 1 + hunk.new_lines] = lines
        if lines == before:
            return change
        edited_change = self._apply_edit(change, hunk, file_lines, lines)
        yours_by_id = {other_hunk.id: other_hunk.yours for other_hunk in change.hunks if other_hunk is not hunk}
        hunks = tuple(
            replace(edited_hunk, yours=yours_by_id.get(edited_hunk.id, True)) for edited_hunk in edited_change.hunks
        )
        previous_origin = change.origin or Origin()
        origin = replace(
            previous_origin,
            tool="you",
            over=previous_origin.over if previous_origin.tool == "you" else previous_origin.tool,
        )
        conflict = describe_other_conflict(change)
        edited_change = replace(
            edited_change, hunks=hunks, origin=origin, check=None, conflict=conflict, competing_versions=()
        )
        edited_change = include_competing_versions(edited_change, change.competing_versions, self.contents)
        for event in build_pending_events(edited_change, is_revision=True):
            self.emit(event)
        self._emit_edited(edited_change, hunk, lines)
        return edited_change

    def _apply_edit(self, change: Change, hunk: Hunk, file_lines: list[bytes], lines: list[bytes]) -> Change:
        """Return the change with these pending lines; the other hunks are unchanged wherever that is exact."""
        old, new = self.contents.read(change.counted_state), b"".join(file_lines)
        mode = change.base.mode if change.pending.kind == "absent" else change.pending.mode
        sides = ChangeSides(base=change.base, pending=self.contents.store_file(new, mode))
        before = _slice_side(old, hunk, is_old=True)
        is_exact = is_divisible(old, new) and split_lines(new) == file_lines and find_notebook(new) is None
        if is_exact and (every := replace_hunk(change.hunks, hunk, find_regions(before, lines), before, lines)):
            return narrow_change(change, sides, every)
        return replace(
            self.contents.build_change(change.path, sides, change.hunks, change.rename_source), apart=change.apart
        )

    def _emit_edited(self, change: Change, hunk: Hunk, lines: Sequence[bytes]) -> None:
        touched_range = (hunk.new_start, hunk.new_start + max(len(lines), 1))
        edited_hunks = tuple(
            edited_hunk for edited_hunk in change.hunks if touched_range[0] <= edited_hunk.new_start <= touched_range[1]
        )
        if edited_hunks:
            self._transfer_comment(change.path, hunk.id, edited_hunks[0])
        excerpt = build_excerpt(change, edited_hunks, *self.contents.read_change(change))
        self.emit(
            HunkEdited(id=new_id("edit"), path=change.path, start=hunk.new_start, lines=len(lines), excerpt=excerpt)
        )

    def _transfer_comment(self, path: str, hunk_id: str, heir: Hunk) -> None:
        comment = self.state.comments.get((path, hunk_id))
        if comment is not None and heir.id != hunk_id:
            self.comment(path, hunk_id, "")
            self.comment(path, heir.id, comment.text)

    def comment(self, path: str, hunk_id: str, text: str) -> None:
        """Store a comment on a hunk; an empty text removes it, even if the hunk no longer exists."""
        if not text.strip():
            if (path, hunk_id) not in self.state.comments:
                raise CommandRejected(f"There is no comment on that hunk of {path}.", code="no_comment")
            self.emit(HunkCommented(comment=Comment(path=path, hunk=hunk_id, text="")))
            return
        change, hunk = self.find_hunk(path, hunk_id)
        comment = Comment(
            path=path,
            hunk=hunk_id,
            text=text.strip(),
            start=hunk.new_start,
            lines=hunk.new_lines,
            excerpt=build_excerpt(change, (hunk,), *self.contents.read_change(change)),
        )
        self.emit(HunkCommented(comment=comment))

    def find_hunk(self, path: str, hunk_id: str) -> tuple[Change, Hunk]:
        """Return a pending hunk and its change. Raises `CommandRejected` if it does not exist (any more)."""
        change = self.state.changes.get(path)
        if change is None:
            raise CommandRejected(f"Nothing is pending for {path}.", code="change_unknown")
        for hunk in change.hunks:
            if hunk.id == hunk_id:
                return change, hunk
        raise CommandRejected(
            f"{path} has no pending hunk {hunk_id}.",
            hint="The change is newer than what you see; look at it again.",
            code="hunk_unknown",
        )


def _find_cell(notebook: Notebook, hunk: Hunk) -> Cell:
    """Return the one cell that remains after a hunk. Raises `CommandRejected`."""
    cells = find_touched([cell.span for cell in notebook.cells], hunk.new_start, hunk.new_lines)
    if len(cells) != 1:
        hint = "Accept or reject it, or say what to change." if hunk.new_lines else ""
        raise CommandRejected("This hunk is not one notebook cell.", hint=hint, code="not_text")
    return notebook.cells[cells[0]]


def _divide_hunk(old: HunkSide, new: HunkSide, line: int) -> list[Region]:
    longer, sides = max(old.size, new.size), (old.own_lines, new.own_lines)
    if line and not 2 <= line <= longer:
        raise CommandRejected(
            f"Line {line} can't start the second part of a hunk of {longer} lines.",
            hint=f"Choose one from 2 to {longer}." if longer > 1 else "",
            code="not_divisible",
        )
    if line:
        return halve_hunk(*sides, line - 1, old.encoding)
    if len(pieces := find_pieces(*sides)) > 1:
        return pieces
    if (parts := find_parts(old, new)) or is_known_language(old.path):
        return parts or [(0, old.size, 0, new.size)]
    return halve_hunk(*sides, (longer + 1) // 2, old.encoding)


def _is_text(change: Change) -> bool:
    return not change.binary and "symlink" not in {change.base.kind, change.pending.kind}


def _require_text(change: Change, hunk: Hunk) -> None:
    if hunk.moves:
        raise CommandRejected(
            f"{change.path} is renamed; a rename has no text.", hint="Edit one of its other hunks.", code="not_text"
        )
    if not _is_text(change) or change.operation == "mode":
        description = "a change of mode" if change.operation == "mode" else "a symbolic link"
        description = "a binary file" if change.binary else description
        raise CommandRejected(f"{change.path} is {description}; it can't be edited here.", code="not_text")


def _slice_side(data: bytes, hunk: Hunk, *, is_old: bool = False) -> list[bytes]:
    start, count = (hunk.old_start, hunk.old_lines) if is_old else (hunk.new_start, hunk.new_lines)
    return split_lines(data)[start - 1 : start - 1 + count]


def _decode_shown(line: bytes, encoding: Encoding) -> str:
    text, ending = decode_line(line, encoding)
    return text if ending == "none" else f"{text}\n"


def _encode_lines(text: str, file: bytes, before: Sequence[bytes], *, at_end: bool) -> list[bytes]:
    """Encode the lines of `text` for this file: unchanged lines with their old bytes, others in the file's encoding and
    with the line ending of their neighbours. Only the last line of a file (`at_end`) may have no ending."""
    (encoding,) = find_display_encodings(file)
    new_lines = [f"{line}\n" for line in text.replace("\r\n", "\n").split("\n")]
    new_lines[-1] = new_lines[-1][:-1]
    new_lines = new_lines if new_lines[-1] else new_lines[:-1]
    if new_lines and not new_lines[-1].endswith("\n") and not at_end:
        new_lines[-1] += "\n"
    decoded_lines = [_decode_shown(line, encoding) for line in before]
    matches = _match_unchanged_lines(decoded_lines, new_lines)
    ending = find_newline(before or split_lines(file), encoding)
    encoded_lines = [
        before[matches[index]] if index in matches else encode_line(line, ending, encoding)
        for index, line in enumerate(new_lines)
    ]
    if encoding == "utf-8" and is_in_unknown_encoding(file) and not text.isascii():
        _refuse_new_signs(text, decoded_lines)
    mark = _BOM.encode(encoding) if encoding.startswith("utf") else b""
    if encoded_lines and before and has_bom(before[0]) and not encoded_lines[0].startswith(mark):
        encoded_lines[0] = mark + encoded_lines[0]
    return encoded_lines


def _refuse_new_signs(text: str, decoded_lines: Sequence[str]) -> None:
    """Raise for a new character beyond ASCII, which would be in another encoding than the existing lines."""
    known_signs = "".join(decoded_lines)
    if sign := next((sign for sign in text if not sign.isascii() and sign not in known_signs), ""):
        raise CommandRejected(
            f"{sign} can't be written: the file is not UTF-8, and its encoding can't be determined.",
            hint="Convert the file first.",
            code="not_text",
        )


def _match_unchanged_lines(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """Map the lines of `after` to the equal lines of `before`."""
    matches: dict[int, int] = {}
    a = b = 0
    old, new = ([line.encode("utf-8", "surrogatepass") for line in side] for side in (before, after))
    for a0, a1, b0, b1 in (*find_pieces(old, new), (len(old), len(old), len(new), len(new))):
        matches.update(zip(range(b, b0), range(a, a0), strict=True))
        a, b = a1, b1
    return matches
