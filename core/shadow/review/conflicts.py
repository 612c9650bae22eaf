"""A change in conflict as three sides (base, the user's file, the agent's), and its resolution by choices.

Of a change with a competing version the sides are what that began with, what is pending, and what it made. Resolving
never writes to the project: the result is a pending change made from the file as it is on disk, which is accepted like
any other, with the same guards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from core.errors import CommandRejected, PathRefused
from core.ids import new_id
from core.protocol.events import VerdictGiven
from core.protocol.review import (
    Change,
    CompetingVersion,
    ConflictChoice,
    ConflictRegion,
    ConflictSides,
    FileState,
    VerdictRecord,
)
from core.shadow.content.contents import ChangeSides, assign_todo
from core.shadow.diff.text_lines import (
    Encoding,
    decode_line,
    encode_line,
    find_newline,
    find_shown_encodings,
    is_binary,
    split_lines,
)
from core.shadow.diff.three_way_merge import MergeChunk
from core.shadow.review.competing_versions import describe_clash, include_competing_versions, reconcile
from core.shadow.review.review_part import ReviewPart
from core.shadow.review.verdict_plan import build_pending_events

CONTEXT_LINES = 3  # lines shown above a clash
MAX_SIDE_LINES = 2_000  # lines of one side of a clash


class Conflicts(ReviewPart):
    """The conflicts of one session's changes."""

    def read_sides(self, path: str) -> ConflictSides | None:
        """Return the three sides of a change; None if nothing is pending there, or it is in no conflict."""
        change = self.state.changes.get(path)
        if change is None or not change.conflict:
            return None
        try:
            change, our_state, competing = self._select_sides(change)
        except PathRefused as error:
            return ConflictSides(
                path=path, base=change.base, mine=change.base, theirs=change.pending, problem=error.message
            )
        chunks = self.contents.split_chunks(change.base, our_state, change.pending)
        if chunks is None:
            base, our_lines, their_lines = map(self._describe_state, (change.base, our_state, change.pending))
            clashes = [ConflictRegion(start=1, base=base, mine=our_lines, theirs=their_lines)]
        else:
            clashes = list(self._list_clashes(change, our_state, chunks))
        return ConflictSides(
            path=path,
            base=change.base,
            mine=our_state,
            theirs=change.pending,
            clashes=tuple(clashes),
            whole=chunks is None,
            language=change.language,
            mine_is=self._name_pending(path, clashes) if competing else "",
            theirs_is=competing.name if competing else "",
        )

    def _name_pending(self, path: str, clashes: Sequence[ConflictRegion]) -> str:
        """Name the todos for which the pending side of these clashes was made, else the subagent; "" = neither."""
        change = self.state.changes[path]
        todos = {
            hunk.todo
            for hunk in change.hunks
            for clash in clashes
            if hunk.new_start <= clash.start + len(clash.mine) and clash.start <= hunk.new_start + hunk.new_lines
        }
        subagent = change.origin.subagent if change.origin is not None else ""
        return ", ".join(sorted(filter(None, todos))) or (f"“{subagent}”" if subagent else "")

    def _select_sides(self, change: Change) -> tuple[Change, FileState, CompetingVersion | None]:
        """Return the change to be resolved and the side called mine: what is pending, and the first competing version
        in place of the agent's, if that is the conflict; else the user's file, and None."""
        if not change.competing_versions or change.conflict != describe_clash(change):
            return change, self.contents.store(*self.workspace.read_state(change.path)), None
        first = change.competing_versions[0]
        return replace(change, base=first.base, pending=first.theirs), change.pending, first

    def resolve(
        self, path: str, choices: Sequence[ConflictChoice], our_blob: str = "", their_blob: str = ""
    ) -> Change | None:
        """Make one pending change of the three sides; see `ConflictResolve`. None: nothing is pending any more.

        `our_blob`, `their_blob`: the blobs that were shown. Raises `CommandRejected` if they have changed since.
        """
        previous = self.state.changes.get(path)
        if previous is None or not previous.conflict:
            raise CommandRejected(f"{path} is in no conflict.", code="no_conflict")
        change, our_state, competing = self._select_sides(previous)
        if (our_blob and our_blob != our_state.blob) or (their_blob and their_blob != change.pending.blob):
            raise CommandRejected(
                f"{path} has moved on since these sides were shown.",
                hint="Look at the conflict again.",
                code="conflict_moved_on",
            )
        pending = self._apply_choices(change, our_state, choices)
        base, versions = (
            (previous.base, previous.competing_versions[1:]) if competing else (our_state, previous.competing_versions)
        )
        pending, versions = reconcile(pending, versions, self.contents)
        resolved = self.contents.build_change(path, ChangeSides(base=base, pending=pending), previous.hunks)
        hunks = assign_todo(resolved.hunks, previous.hunks, competing.todo if competing else "")
        resolved = replace(resolved, hunks=hunks, origin=previous.origin)
        resolved = include_competing_versions(resolved, versions, self.contents)
        record = VerdictRecord(
            id=new_id("verdict"),
            path=path,
            verdict="accept",
            hunks=(),
            base_before=previous.base,
            base_after=resolved.base,
            pending_before=previous.pending,
            pending_after=resolved.pending,
            settled=previous,
        )
        for event in (*build_pending_events(resolved, is_revision=True), VerdictGiven(verdict=record)):
            self.emit(event)
        return self.state.changes.get(path)

    def _apply_choices(self, change: Change, our_state: FileState, choices: Sequence[ConflictChoice]) -> FileState:
        chunks = self.contents.split_chunks(change.base, our_state, change.pending)
        if chunks is None:
            _require_choices(choices, 1)
            states = {"mine": our_state, "theirs": change.pending}
            if choices[0].take not in states:
                raise CommandRejected(
                    f"{change.path} can only be taken whole.",
                    hint="Keep yours, or take the agent's.",
                    code="not_mergeable",
                )
            return states[choices[0].take]
        _require_choices(choices, sum(chunk.clashes for chunk in chunks))
        waiting = iter(choices)
        (encoding,) = find_shown_encodings(self.contents.read(our_state))
        lines = [
            line
            for chunk in chunks
            for line in (_apply_choice(chunk, next(waiting), encoding) if chunk.clashes else chunk.mine)
        ]
        mode = our_state.mode if our_state.mode != change.base.mode else change.pending.mode
        return self.contents.store_file(b"".join(_terminate_lines(lines, encoding)), mode)

    def _list_clashes(self, change: Change, our_state: FileState, chunks: list[MergeChunk]) -> Iterator[ConflictRegion]:
        (encoding,), base = (
            find_shown_encodings(self.contents.read(our_state)),
            split_lines(self.contents.read(change.base)),
        )
        line, above = 1, list[bytes]()
        for chunk in chunks:
            if chunk.clashes:
                yield ConflictRegion(
                    start=line,
                    base=_decode_lines(base[chunk.start : chunk.end], encoding),
                    mine=_decode_lines(chunk.mine, encoding),
                    theirs=_decode_lines(chunk.theirs, encoding),
                    before=_decode_lines(above, encoding),
                )
            line += len(chunk.mine)
            above = [*above, *chunk.mine][-CONTEXT_LINES:]

    def _describe_state(self, state: FileState) -> tuple[str, ...]:
        if state.kind == "absent":
            return ("(no such file)",)
        data = self.contents.read(state)
        if state.kind == "symlink":
            return (f"(symbolic link to {data.decode('utf-8', 'replace')})",)
        if is_binary(data):
            return (f"(binary file of {state.size:,} bytes)",)
        return _decode_lines(split_lines(data), find_shown_encodings(data)[0]) or ("(empty file)",)


def _decode_lines(lines: Sequence[bytes], encoding: Encoding) -> tuple[str, ...]:
    texts = tuple(
        decode_line(line, encoding, is_first=not index)[0] for index, line in enumerate(lines[:MAX_SIDE_LINES])
    )
    return texts if len(lines) <= MAX_SIDE_LINES else (*texts, f"… {len(lines) - MAX_SIDE_LINES:,} more lines")


def _require_choices(choices: Sequence[ConflictChoice], count: int) -> None:
    if len(choices) != count:
        raise CommandRejected(
            f"There are {count} places to decide about, and {len(choices)} choices.",
            hint="Give one choice for each, in order.",
            code="choices_differ",
        )


def _apply_choice(stretch: MergeChunk, choice: ConflictChoice, encoding: Encoding) -> list[bytes]:
    if choice.take != "text":
        sides = {"mine": stretch.mine, "theirs": stretch.theirs, "both": [*stretch.mine, *stretch.theirs]}
        return sides[choice.take]
    if not choice.text:
        return []
    newline = find_newline((*stretch.mine, *stretch.theirs), encoding)
    return [encode_line(f"{line}\n", newline, encoding) for line in choice.text.removesuffix("\n").split("\n")]


def _terminate_lines(lines: Sequence[bytes], encoding: Encoding) -> list[bytes]:
    """Terminate all lines but the last: a side's last line can come to stand inside."""
    newline = find_newline(lines, encoding).encode(encoding)
    return [
        line if index == len(lines) - 1 or decode_line(line, encoding)[1] != "none" else line + newline
        for index, line in enumerate(lines)
    ]
