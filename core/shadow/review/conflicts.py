"""Conflicts of changes: the hunks that clash, the competing versions of other agents, and their resolution.

A hunk clashes if it shares a chunk of the three-way merge with what the user's file has there, or with another agent's
version. The other hunks can be accepted all the same. Where that cannot be computed (no text, a deletion), no hunk is
marked, and all of them count as clashing.

Of two agents' clashing versions of a path, ours is pending and theirs is a competing version of the change. The parts
of theirs that fit are merged into the pending state, so the user resolves only where both differ.

A conflict has three sides: base, the user's file and the agent's; with a competing version, the sides are its base,
the pending state and its result. Resolving never writes to the project: the result is a pending change against the
file on disk, which is accepted like any other, with the same guards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

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
from core.shadow.content.contents import ChangeSides, Contents, assign_todo
from core.shadow.diff.text_lines import (
    Encoding,
    decode_line,
    encode_line,
    find_display_encodings,
    find_newline,
    is_binary,
    split_lines,
)
from core.shadow.diff.three_way_merge import MergeChunk
from core.shadow.review.verdict_plan import ReviewPart, build_pending_events

LineRange = tuple[int, int]  # lines, 0-indexed, the end excluded
BASE_CHANGED = "the file was changed at the same place since that work started."
CONTEXT_LINES = 3  # lines shown above a clash
MAX_SIDE_LINES = 2_000  # lines of one side of a clash


def mark_clashes(change: Change, contents: Contents, disk: FileState | None = None) -> Change:
    """Return a change in conflict with its clashing hunks marked: those that clash with its competing versions, or with
    the file on `disk` (None: the disk is in the base state)."""
    in_base = [] if disk is None else _find_base_ranges(change, disk, contents)
    in_pending = [_find_pending_ranges(change, version, contents) for version in change.competing_versions]
    if in_base is None or None in in_pending:
        return _clear_clashes(change)
    pending_ranges = [line_range for ranges in in_pending if ranges for line_range in ranges]
    hunks = tuple(
        replace(
            hunk,
            clashes=not hunk.moves
            and (
                _is_touching(hunk.old_start, hunk.old_lines, in_base)
                or _is_touching(hunk.new_start, hunk.new_lines, pending_ranges)
            ),
        )
        for hunk in change.hunks
    )
    marked_change = replace(change, hunks=hunks)
    return (
        marked_change if any(hunk.clashes for hunk in hunks) and marked_change.clean_hunks else _clear_clashes(change)
    )


def _clear_clashes(change: Change) -> Change:
    return replace(change, hunks=tuple(replace(hunk, clashes=False) for hunk in change.hunks))


def _find_base_ranges(change: Change, disk: FileState, contents: Contents) -> list[LineRange] | None:
    """Return the ranges of the base where the disk and the pending state clash; None if they are no texts."""
    chunks = contents.split_chunks(change.base, disk, change.pending)
    return None if chunks is None else [(chunk.start, chunk.end) for chunk in chunks if chunk.clashes]


def _find_pending_ranges(change: Change, version: CompetingVersion, contents: Contents) -> list[LineRange] | None:
    """Return the ranges of the pending file where a competing version differs; None if they are no texts."""
    chunks = contents.split_chunks(version.base, change.pending, version.theirs)
    if chunks is None:
        return None
    ends = list(accumulate((len(chunk.mine) for chunk in chunks), initial=0))
    return [(start, end) for chunk, (start, end) in zip(chunks, pairwise(ends), strict=True) if chunk.clashes]


def _is_touching(first: int, count: int, ranges: list[LineRange]) -> bool:
    """True if `count` lines from line `first` (from 1) overlap or touch one of the ranges."""
    return any(first - 1 <= end and start <= first - 1 + count for start, end in ranges)


def describe_clash(change: Change) -> str:
    """Describe the conflict of a change with its competing versions, "" = it has none."""
    if not change.competing_versions:
        return ""
    names = list(dict.fromkeys(competing_version.name for competing_version in change.competing_versions))
    return f"{' and '.join(names)} changed the same place in another way."


def describe_other_conflict(change: Change) -> str:
    """Describe a conflict apart from the competing versions; "" = there is no other."""
    return "" if change.conflict == describe_clash(change) else change.conflict


def has_conflict_with(change: Change | None, subagent_id: str) -> bool:
    """True if the work of `subagent_id` on a path is unresolved: as a competing version, or over a changed file."""
    return change is not None and (
        bool(describe_other_conflict(change))
        or any(competing_version.by == subagent_id for competing_version in change.competing_versions)
    )


def include_competing_versions(
    change: Change, competing_versions: tuple[CompetingVersion, ...], contents: Contents
) -> Change:
    """Return a newly compared change with these competing versions. When nothing of ours remains, theirs becomes the
    pending version, over their base, in conflict with the file."""
    if not competing_versions:
        return change
    if change.base != change.pending:
        return _retain_unmerged(change, competing_versions, contents)
    first, rest = competing_versions[0], competing_versions[1:]
    if (merged_state := contents.merge(first.base, change.base, first.theirs)) is not None:
        sides = ChangeSides(base=change.base, pending=merged_state)
        return include_competing_versions(
            contents.build_change(change.path, sides, origin=change.origin), rest, contents
        )
    sides = ChangeSides(base=first.base, pending=first.theirs)
    rebuilt_change = contents.build_change(change.path, sides, origin=change.origin)
    return replace(rebuilt_change, conflict=BASE_CHANGED, competing_versions=rest)


def _retain_unmerged(change: Change, competing_versions: tuple[CompetingVersion, ...], contents: Contents) -> Change:
    """Merge the competing versions that fit by now, and retain the others."""
    pending, remaining_versions = reconcile(change.pending, competing_versions, contents)
    if pending != change.pending:
        sides = ChangeSides(base=change.base, pending=pending)
        updated_change = contents.build_change(change.path, sides, change.hunks, change.rename_source, change.origin)
        todos = "" if len(competing_versions) > 1 else competing_versions[0].todo
        hunks = assign_todo(updated_change.hunks, change.hunks, todos)
        change = replace(updated_change, hunks=hunks, conflict=change.conflict, apart=change.apart)
    updated_change = replace(change, competing_versions=remaining_versions)
    updated_change = replace(updated_change, conflict=change.conflict or describe_clash(updated_change))
    return (
        mark_clashes(updated_change, contents)
        if remaining_versions and updated_change.conflict == describe_clash(updated_change)
        else updated_change
    )


def reconcile(
    pending: FileState, competing_versions: tuple[CompetingVersion, ...], contents: Contents
) -> tuple[FileState, tuple[CompetingVersion, ...]]:
    """Merge all competing versions that fit into the pending state; return that and those that do not fit.

    Of the latter, the parts that fit are merged as well.
    """
    remaining_versions = []
    for competing_version in competing_versions:
        merged_state = contents.merge(competing_version.base, pending, competing_version.theirs)
        if merged_state is None:
            remaining_versions.append(competing_version)
            merged_state = contents.merge(competing_version.base, pending, competing_version.theirs, prefer_ours=True)
        pending = merged_state or pending
    return pending, tuple(remaining_versions)


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
        """Return the names of the todos of the pending side of these clashes, else of the subagent; "" = neither."""
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
        """Return the change to resolve, the state of the side `mine`, and the competing version. In a conflict with a
        competing version, mine is the pending state and the first competing version replaces the agent's; else mine is
        the user's file, and the version is None."""
        if not change.competing_versions or change.conflict != describe_clash(change):
            return change, self.contents.store(*self.workspace.read_state(change.path)), None
        first = change.competing_versions[0]
        return replace(change, base=first.base, pending=first.theirs), change.pending, first

    def resolve(
        self, path: str, choices: Sequence[ConflictChoice], our_blob: str = "", their_blob: str = ""
    ) -> Change | None:
        """Combine the three sides into one pending change; see `ConflictResolve`. None: nothing is pending any more.

        `our_blob`, `their_blob`: the blobs that were displayed. Raises `CommandRejected` if they have changed since.
        """
        previous = self.state.changes.get(path)
        if previous is None or not previous.conflict:
            raise CommandRejected(f"{path} is not in conflict.", code="no_conflict")
        change, our_state, competing = self._select_sides(previous)
        if (our_blob and our_blob != our_state.blob) or (their_blob and their_blob != change.pending.blob):
            raise CommandRejected(
                f"{path} has changed since these versions were shown.",
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
        (encoding,) = find_display_encodings(self.contents.read(our_state))
        lines = [
            line
            for chunk in chunks
            for line in (_apply_choice(chunk, next(waiting), encoding) if chunk.clashes else chunk.mine)
        ]
        mode = our_state.mode if our_state.mode != change.base.mode else change.pending.mode
        return self.contents.store_file(b"".join(_terminate_lines(lines, encoding)), mode)

    def _list_clashes(self, change: Change, our_state: FileState, chunks: list[MergeChunk]) -> Iterator[ConflictRegion]:
        (encoding,), base = (
            find_display_encodings(self.contents.read(our_state)),
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
        return _decode_lines(split_lines(data), find_display_encodings(data)[0]) or ("(empty file)",)


def _decode_lines(lines: Sequence[bytes], encoding: Encoding) -> tuple[str, ...]:
    texts = tuple(
        decode_line(line, encoding, is_first=not index)[0] for index, line in enumerate(lines[:MAX_SIDE_LINES])
    )
    return texts if len(lines) <= MAX_SIDE_LINES else (*texts, f"… {len(lines) - MAX_SIDE_LINES:,} more lines")


def _require_choices(choices: Sequence[ConflictChoice], count: int) -> None:
    if len(choices) != count:
        raise CommandRejected(
            f"There are {count} places to decide, but {len(choices)} choices.",
            hint="Give one choice per place, in order.",
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
    """Terminate all lines but the last, as a side's last line can become an inner one."""
    newline = find_newline(lines, encoding).encode(encoding)
    return [
        line if index == len(lines) - 1 or decode_line(line, encoding)[1] != "none" else line + newline
        for index, line in enumerate(lines)
    ]
