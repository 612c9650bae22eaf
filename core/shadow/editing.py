"""What the agent makes of a path: an edit of a file tool, or what a command left there, as a pending change over what
the disk has by now. The user's own edits win."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from core.errors import PathRefused
from core.protocol.events import AnyEvent, ChangeProposed, ChangeResolved, ChangeRevised
from core.protocol.review import Change, FileState, Hunk, Origin, Rival
from core.shadow.clashing import marked
from core.shadow.contents import Contents, Sides, for_todo
from core.shadow.disk import Disk
from core.shadow.review import ReviewState
from core.shadow.rivals import OVER_BASE, otherwise, with_rivals
from core.shadow.verdicts import why_moved_on
from core.workspace import ABSENT, Workspace


class Edited(Struct, frozen=True, kw_only=True):
    """What an edit did: the change as it is pending now (without hunks: nothing is), and the bytes it replaced and put
    there, as the agent sees them (None: absent)."""

    change: Change
    before: bytes | None
    after: bytes | None


class Left(Struct, frozen=True, kw_only=True):
    """What a command left at a path: it found `then`, and left `wanted`. `doubt` says why what it found is not sure to
    be what the base has; `renamed_from` names a file of the same content that it removed."""

    path: str
    then: FileState
    wanted: FileState
    origin: Origin
    doubt: str = ""
    renamed_from: str = ""


class Editing:
    """Records pending states. Whether a path may be written at all has been decided before."""

    def __init__(
        self, workspace: Workspace, contents: Contents, emit: Callable[[AnyEvent], None], state: ReviewState
    ) -> None:
        self._workspace = workspace
        self._contents = contents
        self._emit = emit
        self._state = state
        self._disk = Disk(workspace, contents, state)

    def shown(self, change: Change) -> FileState:
        """The pending state; in a conflict the user's file with those of the agent's edits that still fit, so that the
        next edit builds on what the user has."""
        if not change.conflict:
            return change.pending
        try:
            disk = self._disk.state(change.path)
        except PathRefused:
            return change.pending
        return self._contents.merge(change.base, disk, change.pending, prefer_ours=True) or disk

    def first_name(self, path: str) -> str:
        """The path that the project has a file by which is pending here under another name."""
        change = self._state.changes.get(path)
        return change.renamed_from if change and change.operation == "rename" else path

    def edit(
        self,
        path: str,
        data: bytes | None,
        *,
        origin: Origin | None,
        mode: int | None,
        seen: FileState | None = None,
    ) -> Edited:
        """Put `data` (None: nothing) at a path. `seen`: what a kept layer has there; None: it has nothing."""
        change = self._change(path)
        found = self.shown(change) if seen is None or path in self._state.changes else seen
        if data is None and found.kind == "absent":
            raise PathRefused(f"{path!r} does not exist.", code="not_found")
        wanted = self._wanted(found, data, mode)
        before = None if found.kind == "absent" else self._contents.data(found)
        if wanted == found and not change.conflict:
            return Edited(change=change, before=before, after=data)
        return Edited(change=self._placed(change, wanted, origin), before=before, after=data)

    def left(self, left: Left) -> Change | None:
        """Record what a command left at a path; None: nothing of it is pending."""
        change = self._change(left.path)
        now = change.pending
        if left.wanted in (left.then, now) and not change.conflict:
            return self._state.changes.get(left.path)
        wanted, doubt = left.wanted, left.doubt
        if now != left.then and not doubt:
            merged = self._contents.merge(left.then, now, wanted)
            doubt = "" if merged else "it was changed while the command ran; the command's version is shown."
            wanted = merged or wanted
        if not doubt:
            self._placed(change, wanted, left.origin, left.renamed_from)
        else:
            # What it was made from is not known: an empty base differs from all that the user may have written.
            base = self._contents.file(b"", 0o644) if left.doubt else change.base
            self._tell(change, Sides(base=base, pending=wanted), left.origin, conflict=doubt)
        return self._state.changes.get(left.path)

    def join(self, left: Left) -> Change | None:
        """Record what another agent made of a path over what is pending here by now; None: nothing of it is pending.

        Where both clash, ours stays pending with the parts of theirs that fit, and theirs is kept as a rival.
        """
        change = self._change(left.path)
        now = change.pending
        if left.wanted in (left.then, now):
            return self._state.changes.get(left.path)
        merged = self._contents.merge(left.then, now, left.wanted)
        if merged is not None and not otherwise(change):
            self._placed(change, merged, left.origin, left.renamed_from)
        elif left.path not in self._state.changes:
            self._tell(change, Sides(base=left.then, pending=left.wanted), left.origin, conflict=OVER_BASE)
        else:
            rival = Rival(base=left.then, theirs=left.wanted, by=left.origin.call, todo=left.origin.todo)
            fitting = self._contents.merge(left.then, now, left.wanted, prefer_ours=True) or now
            conflict = otherwise(change)
            change = replace(change, rivals=(*change.rivals, rival))
            sides = Sides(base=change.base, pending=fitting)
            found = replace(change, hunks=self._made_for(change, fitting, left.origin.todo))
            self._tell(found, sides, change.origin, conflict=conflict, renamed_from=change.renamed_from)
        return self._state.changes.get(left.path)

    def _made_for(self, change: Change, pending: FileState, todo: str) -> tuple[Hunk, ...]:
        """The hunks of another pending state; those that are new were made for this todo."""
        sides = Sides(base=change.base, pending=pending)
        hunks = self._contents.change(change.path, sides, change.hunks, change.moved).hunks
        return for_todo(hunks, change.hunks, todo)

    def _change(self, path: str) -> Change:
        change = self._state.changes.get(path)
        if change is not None:
            return change
        disk = self._disk.state(path)
        return Change(path=path, operation="edit", base=disk, pending=disk)

    def _wanted(self, found: FileState, data: bytes | None, mode: int | None) -> FileState:
        if data is None:
            return ABSENT
        kept = found.mode if found.kind == "file" else self._workspace.new_file_mode
        return self._contents.file(data, (kept if mode is None else mode) & 0o777)

    def _placed(self, change: Change, wanted: FileState, origin: Origin | None, renamed_from: str = "") -> Change:
        """Record what the agent wants a path to become, over what the disk has by now."""
        sides, conflict = self._rebased(change, wanted)
        return self._tell(change, sides, origin, conflict=conflict, renamed_from=renamed_from)

    def _tell(
        self, change: Change, sides: Sides, origin: Origin | None, *, conflict: str = "", renamed_from: str = ""
    ) -> Change:
        found = self._contents.change(change.path, sides, change.hunks, self._moved(renamed_from) or change.moved)
        hunks = for_todo(found.hunks, change.hunks, origin.todo if origin else "")
        found = replace(found, hunks=hunks, origin=origin, conflict=conflict, apart=change.apart)
        if conflict and sides.base == change.base != ABSENT:
            found = self._marked(found)
        found, sides = self._with_rivals(found, change.rivals)
        known = change.path in self._state.changes
        if sides.base == sides.pending:
            if known:
                self._emit(ChangeResolved(path=change.path))
            return found
        self._emit(ChangeRevised(change=found) if known else ChangeProposed(change=found))
        return found

    def _moved(self, old: str) -> tuple[str, FileState] | None:
        """What the project has at a path that is to be gone, for a rename from there."""
        gone = self._state.changes.get(old)
        if gone is None or gone.conflict or gone.pending.kind != "absent" or gone.base.kind != "file":
            return None
        return old, gone.base

    def _marked(self, found: Change) -> Change:
        try:
            return marked(found, self._contents, self._disk.state(found.path))
        except PathRefused:
            return found

    def _with_rivals(self, found: Change, rivals: tuple[Rival, ...]) -> tuple[Change, Sides]:
        found = with_rivals(found, rivals, self._contents)
        return found, Sides(base=found.base, pending=found.pending)

    def _rebased(self, change: Change, wanted: FileState) -> tuple[Sides, str]:
        try:
            disk = self._disk.state(change.path)
        except PathRefused as error:
            return Sides(base=change.base, pending=wanted), error.message
        if disk == change.base or change.conflict:
            # In a conflict the agent has been shown the user's file: what it writes now is meant for that.
            return Sides(base=disk, pending=wanted), ""
        merged = self._contents.merge(change.base, disk, change.pending)
        both = self._contents.merge(change.pending, merged, wanted) if merged else None
        if both is None:
            return Sides(base=change.base, pending=wanted), why_moved_on(change, disk)
        return Sides(base=disk, pending=both), ""
