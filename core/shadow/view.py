"""The shadow: the pending tree over the workspace. Reads see it first, writes land in it and nowhere else.

It never alters the review state itself: it emits events, and whoever keeps the log applies them to the state. The
bytes that an event names are stored before it is emitted.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from core.errors import PathRefused
from core.protocol.events import (
    AnyEvent,
    ChangeProposed,
    ChangeResolved,
    ChangeRevised,
    VerdictGiven,
    VerdictUndone,
)
from core.protocol.review import Change, ChangeDiff, FileState, Origin, Verdict, VerdictRecord
from core.shadow.blobs import BlobStore
from core.shadow.conflicts import Conflicts
from core.shadow.contents import Contents, Sides
from core.shadow.difflines import difference
from core.shadow.journal import Intent, Journal
from core.shadow.promote import Promotion
from core.shadow.review import ReviewState
from core.shadow.rework import Rework
from core.shadow.verdicts import Verdicts, why_moved_on
from core.workspace import ABSENT, Entry, IgnoreRules, PathStat, Workspace

Emit = Callable[[AnyEvent], None]


class Edited(Struct, frozen=True, kw_only=True):
    """What an edit did: the change as it is pending now (without hunks: nothing is), and the bytes it replaced and put
    there, as the agent sees them (None: absent)."""

    change: Change
    before: bytes | None
    after: bytes | None


def _no_step(_: str) -> None:
    pass


class Shadow:
    """One session's pending changes. `step` is called between the effects of a promotion."""

    def __init__(
        self,
        workspace: Workspace,
        blobs: BlobStore,
        emit: Emit,
        state: ReviewState,
        *,
        step: Callable[[str], None] = _no_step,
    ) -> None:
        self.workspace = workspace
        self.state = state
        self.ignore = IgnoreRules(workspace)
        self._emit = emit
        self._contents = Contents(blobs)
        self._promotion = Promotion(workspace, blobs, Journal(blobs.directory.parent / "journal.jsonl"), step=step)
        self._verdicts = Verdicts(workspace, self._contents, self._promotion, emit, state)
        self.rework = Rework(self._contents, emit, state)
        self.conflicts = Conflicts(workspace, self._contents, emit, state)

    # reading

    def changes(self) -> tuple[Change, ...]:
        """All pending changes by path."""
        return tuple(self.state.changes[path] for path in sorted(self.state.changes))

    def read(self, rel: str, limit: int | None = None) -> bytes | None:
        """The bytes (at most `limit`) of a file as the agent sees it; None when it does not exist.

        `PathRefused`: not a regular file, outside, or kept from the agent.
        """
        state = self._seen(rel)
        if state is not None:
            return None if state.kind == "absent" else self._contents.data(state)[:limit]
        try:
            return self.workspace.read_bytes(rel) if limit is None else self.workspace.read_bytes(rel, limit)
        except PathRefused as error:
            if error.code == "not_found":
                return None
            raise

    def _seen(self, rel: str) -> FileState | None:
        """The pending state of a path; None when nothing of it is pending, so that the workspace tells."""
        self.ignore.refuse_withheld(rel)
        changes = self.state.changes
        change = changes.get(rel)
        if change is None and changes:
            real = self.workspace.canonical(rel)
            if real != rel:
                self.ignore.refuse_withheld(real)
                change = changes.get(real)
        return self._as_the_agent_sees(change) if change else None

    def _as_the_agent_sees(self, change: Change) -> FileState:
        """The pending state; in a conflict the user's file with those of the agent's edits that still fit, so that the
        next edit builds on what the user has."""
        if not change.conflict:
            return change.pending
        try:
            disk = self._on_disk(change.path)
        except PathRefused:
            return change.pending
        return self._contents.merge(change.base, disk, change.pending, prefer_ours=True) or disk

    def stat(self, rel: str) -> PathStat | None:
        """What is there as the agent sees it; None: nothing."""
        state = self._seen(rel)
        if state is not None:
            kind = state.kind
            return None if kind == "absent" else PathStat(kind=kind, size=state.size, mode=state.mode)
        found = self.workspace.stat(rel)
        if found is None and any(self._children(rel).values()):
            return PathStat(kind="directory", size=0, mode=0o755)
        return found

    def list_dir(self, rel: str = ".") -> tuple[Entry, ...]:
        """The entries of a directory, shadow over workspace: directories first, then the rest, each by name."""
        real = self.workspace.canonical(rel)
        children = self._children(real)
        try:
            found = {each.name: each for each in self.workspace.list_dir(real)}
        except PathRefused as error:
            if error.code != "not_found" or not children:
                raise
            found = {}
        for name, entry in children.items():
            if entry is None:
                found.pop(name, None)
            else:
                found[name] = entry
        return tuple(sorted(found.values(), key=lambda each: (each.kind != "directory", each.name)))

    def _children(self, rel: str) -> dict[str, Entry | None]:
        """What pending changes put into a directory, by name; None: they remove it."""
        above = "" if rel == "." else f"{rel}/"
        found: dict[str, Entry | None] = {}
        for path, change in self.state.changes.items():
            if not path.startswith(above):
                continue
            name, slash, _ = path[len(above) :].partition("/")
            kind = change.pending.kind
            if slash and kind != "absent":
                found[name] = Entry(name=name, kind="directory")
            elif not slash:
                found[name] = None if kind == "absent" else Entry(name=name, kind=kind)
        return found

    # writing

    def write(self, rel: str, data: bytes, origin: Origin | None = None, mode: int | None = None) -> Change:
        """Create or replace a file in the shadow. See `edit`."""
        return self.edit(rel, data, origin, mode).change

    def delete(self, rel: str, origin: Origin | None = None) -> Change:
        """Remove a file (or a symbolic link itself) in the shadow. See `edit`."""
        return self.edit(rel, None, origin).change

    def edit(self, rel: str, data: bytes | None, origin: Origin | None = None, mode: int | None = None) -> Edited:
        """Put `data` (None: nothing) at a path, on top of what is pending there. `mode` None keeps the file's.

        `PathRefused`: below `.git`, outside, kept from the agent, or no place for a file.
        """
        path = self.workspace.entry(rel) if data is None else self.workspace.canonical(rel)
        self._refuse_unwritable(rel, path, creates=data is not None)
        change = self.state.changes.get(path)
        if change is None:
            disk = self._on_disk(path)
            change = self._contents.change(path, Sides(base=disk, pending=disk))
        seen = self._as_the_agent_sees(change)
        if data is None and seen.kind == "absent":
            raise PathRefused(f"{rel!r} does not exist.", code="not_found")
        wanted = self._wanted(seen, data, mode)
        before = None if seen.kind == "absent" else self._contents.data(seen)
        if wanted == seen and not change.conflict:
            return Edited(change=change, before=before, after=data)
        return Edited(change=self._placed(change, wanted, origin), before=before, after=data)

    def _wanted(self, seen: FileState, data: bytes | None, mode: int | None) -> FileState:
        if data is None:
            return ABSENT
        kept = seen.mode if seen.kind == "file" else self.workspace.new_file_mode
        return self._contents.file(data, (kept if mode is None else mode) & 0o777)

    def _placed(self, change: Change, wanted: FileState, origin: Origin | None) -> Change:
        """Record what the agent wants a path to become, over what the disk has by now."""
        sides, conflict = self._rebased(change, wanted)
        found = replace(self._contents.change(change.path, sides, change.hunks), origin=origin, conflict=conflict)
        known = change.path in self.state.changes
        if sides.base == sides.pending:
            if known:
                self._emit(ChangeResolved(path=change.path))
            return found
        self._emit(ChangeRevised(change=found) if known else ChangeProposed(change=found))
        return found

    def _rebased(self, change: Change, wanted: FileState) -> tuple[Sides, str]:
        try:
            disk = self._on_disk(change.path)
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

    def _on_disk(self, path: str) -> FileState:
        return self._contents.keep(*self.workspace.state_of(path))

    def _refuse_unwritable(self, rel: str, path: str, *, creates: bool) -> None:
        if self.workspace.is_git_internal(path) or self.workspace.is_git_internal(rel):
            raise PathRefused(f"{rel!r} is inside .git, which is never written.", code="path_protected")
        if path == ".":
            raise PathRefused("The workspace itself is a directory, not a file.", code="not_a_file")
        self.ignore.refuse_withheld(path)
        if creates and any(entry for entry in self._children(path).values()):
            raise PathRefused(f"{rel!r} is a directory: files in it are pending.", code="not_a_file")
        parts = path.split("/")
        for count in range(1, len(parts)) if creates else ():
            self._refuse_file_as_directory("/".join(parts[:count]))

    def _refuse_file_as_directory(self, above: str) -> None:
        pending = self.state.changes.get(above)
        if pending and pending.pending.kind != "absent":
            raise PathRefused(f"{above!r} is a pending file; nothing can be created below it.", code="not_a_directory")
        found = self.workspace.stat(above)
        if found and found.kind != "directory":
            hint = "Its deletion has to be accepted first." if pending else ""
            raise PathRefused(
                f"{above!r} is a file; nothing can be created below it.", hint=hint, code="not_a_directory"
            )

    # reviewing

    def diff(self, rel: str, context: int = 3) -> ChangeDiff | None:
        """A pending change with its lines; None: nothing is pending there. `context` -1 = the whole file."""
        change = self.state.changes.get(rel)
        if change is None:
            return None
        old, new = self._contents.data(change.base), self._contents.data(change.pending)
        return difference(change, old, new, context=context, note=self._link_note(change))

    def _link_note(self, change: Change) -> str:
        try:
            found = self.workspace.stat(change.path) if change.base.kind == "file" else None
        except PathRefused:
            return ""
        if found is None or found.kind != "file" or found.links < 2:
            return ""
        return f"the file has {found.links} names (hard links): accepting changes this one only"

    def check_disk(self, rel: str) -> Change | None:
        """Compare a pending change with the disk: resolved when it is there already, re-based when the user's edits lie
        elsewhere in the file, else marked as a conflict. Returns what is pending now."""
        return self._verdicts.check_disk(rel)

    def resolve(
        self, path: str, hunk_ids: tuple[str, ...] = (), verdict: Verdict = "accept", reason: str = ""
    ) -> list[VerdictRecord]:
        """Accept or reject hunks (none named: all) of a path ("": of all changes that are not protected).

        Accepted hunks are on disk when this returns. All or nothing; raises `CommandRejected` (not pending),
        `ReviewConflict`, `PathRefused` or `PromotionFailed`.
        """
        return self._verdicts.resolve(path, hunk_ids, verdict, reason)

    def undo(self, verdict_id: str = "") -> VerdictRecord:
        """Take a verdict back ("": the latest that stands): its hunks are pending again."""
        return self._verdicts.undo(verdict_id)

    def recover(self) -> list[str]:
        """Finish or take back what a crash left half done; before anything else. Sentences for the user."""
        return self._promotion.recover(self._emit, self._is_news)

    def _is_news(self, intent: Intent, event: AnyEvent) -> bool:
        standing = {each.id for each in self.state.verdicts}
        match event:
            case VerdictGiven(verdict=verdict):
                return verdict.id not in standing and not self._went_on(intent, verdict.path)
            case VerdictUndone(id=verdict_id, path=path):
                return verdict_id in standing and not self._went_on(intent, path)
            case ChangeProposed(change=change) | ChangeRevised(change=change):
                return not self._went_on(intent, change.path)
            case ChangeResolved(path=path):
                return not self._went_on(intent, path)
            case _:
                return True

    def _went_on(self, intent: Intent, path: str) -> bool:
        """Whether the path has been given another pending state since the transaction, which must not be lost."""
        expected = [write.pending for write in intent.writes if write.path == path]
        for event in intent.events:
            match event:
                case ChangeProposed(change=change) | ChangeRevised(change=change) if change.path == path:
                    expected.append(change.pending)
                case ChangeResolved(path=resolved) if resolved == path:
                    expected.append(None)
                case _:
                    pass
        change_now = self.state.changes.get(path)
        return (change_now.pending if change_now else None) not in expected
