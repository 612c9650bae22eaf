"""A change in conflict as three sides (base, the user's file, the agent's), and what the user makes of them.

Of a change with a rival the sides are what the rival began with, what is pending, and what the rival made. Settling
never writes to the project: the result is a pending change made from the file as it is on disk, which is accepted like
any other, with the same guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from core.errors import CommandRejected, PathRefused
from core.ids import new_id
from core.protocol.events import AnyEvent, ChangeResolved, ChangeRevised, VerdictGiven
from core.protocol.review import Change, Choice, Clash, FileState, ThreeSides, VerdictRecord
from core.shadow.contents import Contents, Sides, for_todo
from core.shadow.lines import Encoding, encoding_of, split_lines, text_of
from core.shadow.merge import Stretch, mergeable, stretches
from core.shadow.review import ReviewState
from core.shadow.rivals import clash_of, reconciled, with_rivals
from core.workspace import Workspace

ABOVE = 3  # lines shown above a clash
LONGEST = 2_000  # lines of one side of a clash
PENDING = "what was pending"


class Conflicts:
    """The conflicts of one session's changes."""

    def __init__(
        self, workspace: Workspace, contents: Contents, emit: Callable[[AnyEvent], None], state: ReviewState
    ) -> None:
        self._workspace = workspace
        self._contents = contents
        self._emit = emit
        self._state = state

    def sides(self, path: str) -> ThreeSides | None:
        """The three sides of a change; None when nothing is pending there, or it is in no conflict."""
        change = self._state.changes.get(path)
        if change is None or not change.conflict:
            return None
        change, names = self._as_sides(change)
        try:
            mine = self._mine(change, names)
        except PathRefused as error:
            return ThreeSides(
                path=path, base=change.base, mine=change.base, theirs=change.pending, problem=error.message
            )
        whole = not self._by_lines(change, mine)
        clashes = (self._whole(change, mine),) if whole else tuple(self._clashes(change, mine))
        return ThreeSides(
            path=path,
            base=change.base,
            mine=mine,
            theirs=change.pending,
            clashes=clashes,
            whole=whole,
            language=change.language,
            mine_is=names[0] and self._made_for(path, clashes),
            theirs_is=names[1],
        )

    def _made_for(self, path: str, clashes: Sequence[Clash]) -> str:
        """The todos that what is pending in these places was made for."""
        hunks = self._state.changes[path].hunks
        meant = {
            hunk.todo
            for hunk in hunks
            for each in clashes
            if hunk.new_start <= each.start + len(each.mine) and each.start <= hunk.new_start + hunk.new_lines
        }
        return ", ".join(sorted(filter(None, meant))) or PENDING

    def _as_sides(self, change: Change) -> tuple[Change, tuple[str, str]]:
        """The change whose base and pending state are to be settled, and whose the two sides are: that of its first
        rival, if it is this that it is in conflict with; "" = the user's file and the agent's."""
        if not change.rivals or change.conflict != clash_of(change):
            return change, ("", "")
        first = change.rivals[0]
        return replace(change, base=first.base, pending=first.theirs), (PENDING, first.todo or first.by)

    def _mine(self, change: Change, names: tuple[str, str]) -> FileState:
        """The side that is called mine: the file on disk, or, where a rival clashes with it, what is pending."""
        return self._state.changes[change.path].pending if names[0] else self._on_disk(change.path)

    def settle(self, path: str, choices: Sequence[Choice], mine: str = "", theirs: str = "") -> Change | None:
        """Make one pending change of the three sides; see `ConflictSettle`. None: nothing is pending any more."""
        known = self._state.changes.get(path)
        if known is None or not known.conflict:
            raise CommandRejected(f"{path} is in no conflict.", code="no_conflict")
        change, names = self._as_sides(known)
        own = self._mine(change, names)
        if (mine and mine != own.blob) or (theirs and theirs != change.pending.blob):
            raise CommandRejected(
                f"{path} has moved on since these sides were shown.",
                hint="Look at the conflict again.",
                code="conflict_moved_on",
            )
        pending = self._by_choice(change, own, choices)
        base, rivals = (known.base, known.rivals[1:]) if names[0] else (own, known.rivals)
        pending, rivals = reconciled(pending, rivals, self._contents)
        found = self._contents.change(path, Sides(base=base, pending=pending), known.hunks)
        todo = known.rivals[0].todo if names[0] else ""
        found = replace(found, hunks=for_todo(found.hunks, known.hunks, todo), origin=known.origin)
        found = with_rivals(found, rivals, self._contents)
        record = VerdictRecord(
            id=new_id("verdict"),
            path=path,
            verdict="accept",
            hunks=(),
            base_before=known.base,
            base_after=found.base,
            pending_before=known.pending,
            pending_after=found.pending,
            settled=known,
        )
        self._emit(ChangeResolved(path=path) if found.base == found.pending else ChangeRevised(change=found))
        self._emit(VerdictGiven(verdict=record))
        return self._state.changes.get(path)

    def _by_choice(self, change: Change, own: FileState, choices: Sequence[Choice]) -> FileState:
        if not self._by_lines(change, own):
            _need(choices, 1)
            match choices[0].take:
                case "mine":
                    return own
                case "theirs":
                    return change.pending
                case _:
                    raise CommandRejected(
                        f"{change.path} can only be taken whole.",
                        hint="Keep yours, or take the agent's.",
                        code="not_mergeable",
                    )
        found = self._stretches(change, own)
        _need(choices, sum(each.clashes for each in found))
        waiting = iter(choices)
        encoding = self._encoding(own)
        lines = [
            line for each in found for line in (_taken(each, next(waiting), encoding) if each.clashes else each.mine)
        ]
        mode = own.mode if own.mode != change.base.mode else change.pending.mode
        return self._contents.file(b"".join(_ended(lines, encoding)), mode)

    def _by_lines(self, change: Change, disk: FileState) -> bool:
        sides = (change.base, disk, change.pending)
        return all(each.kind == "file" for each in sides) and mergeable(*map(self._contents.data, sides))

    def _stretches(self, change: Change, disk: FileState) -> list[Stretch]:
        base, mine, theirs = (split_lines(self._contents.data(each)) for each in (change.base, disk, change.pending))
        return stretches(base, mine, theirs)

    def _clashes(self, change: Change, mine: FileState) -> Iterator[Clash]:
        encoding, base = self._encoding(mine), split_lines(self._contents.data(change.base))
        line, above = 1, list[bytes]()
        for each in self._stretches(change, mine):
            if each.clashes:
                yield Clash(
                    start=line,
                    base=_texts(base[each.start : each.end], encoding),
                    mine=_texts(each.mine, encoding),
                    theirs=_texts(each.theirs, encoding),
                    before=_texts(above, encoding),
                )
            line += len(each.mine)
            above = [*above, *each.mine][-ABOVE:]

    def _encoding(self, state: FileState) -> Encoding:
        return encoding_of(self._contents.data(state))

    def _whole(self, change: Change, mine: FileState) -> Clash:
        base, ours, theirs = (self._described(each) for each in (change.base, mine, change.pending))
        return Clash(start=1, base=base, mine=ours, theirs=theirs)

    def _described(self, state: FileState) -> tuple[str, ...]:
        if state.kind == "absent":
            return ("(no such file)",)
        data = self._contents.data(state)
        if state.kind == "symlink":
            return (f"(symbolic link to {data.decode('utf-8', 'replace')})",)
        if b"\0" in data[:8_000] and encoding_of(data) == "utf-8":
            return (f"(binary file of {state.size:,} bytes)",)
        return _texts(split_lines(data), encoding_of(data)) or ("(empty file)",)

    def _on_disk(self, path: str) -> FileState:
        return self._contents.keep(*self._workspace.state_of(path))


def _texts(lines: Sequence[bytes], encoding: Encoding) -> tuple[str, ...]:
    texts = tuple(text_of(line, encoding)[0] for line in lines[:LONGEST])
    return texts if len(lines) <= LONGEST else (*texts, f"… {len(lines) - LONGEST:,} more lines")


def _need(choices: Sequence[Choice], count: int) -> None:
    if len(choices) != count:
        raise CommandRejected(
            f"There are {count} places to decide about, and {len(choices)} choices.",
            hint="Give one choice for each, in order.",
            code="choices_differ",
        )


def _taken(stretch: Stretch, choice: Choice, encoding: Encoding) -> list[bytes]:
    match choice.take:
        case "mine":
            return stretch.mine
        case "theirs":
            return stretch.theirs
        case "both":
            return [*stretch.mine, *stretch.theirs]
        case "text":
            return _written(choice.text, stretch, encoding)


def _written(text: str, stretch: Stretch, encoding: Encoding) -> list[bytes]:
    """The lines that the user wrote, with the line ending that the clash has."""
    ending = _ending((*stretch.mine, *stretch.theirs), encoding)
    try:
        return [f"{line}{ending}".encode(encoding) for line in text.removesuffix("\n").split("\n")] if text else []
    except UnicodeEncodeError as error:
        raise CommandRejected(f"The text holds what {encoding} can't: {error.reason}.", code="not_text") from error


def _ended(lines: Sequence[bytes], encoding: Encoding) -> list[bytes]:
    """Lines in which only the last one may be without an ending: a side's last line can come to stand inside."""
    newline = _ending(lines, encoding).encode(encoding)
    return [
        line if index == len(lines) - 1 or text_of(line, encoding)[1] != "none" else line + newline
        for index, line in enumerate(lines)
    ]


def _ending(lines: Sequence[bytes], encoding: Encoding) -> str:
    kinds = [text_of(line, encoding)[1] for line in lines]
    return "\r\n" if kinds.count("crlf") > kinds.count("lf") else "\n"
