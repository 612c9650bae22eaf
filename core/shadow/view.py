"""The shadow: the pending tree over the workspace. Reads see it first, writes land in it and nowhere else.

It never alters the review state itself: it emits events, and whoever keeps the log applies them to the state. The
bytes that an event names are stored before it is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from core.errors import ContentLost, PathRefused
from core.protocol.events import (
    AnyEvent,
    ChangeProposed,
    ChangeResolved,
    ChangeRevised,
    EffectsRecorded,
    FileWritten,
    VerdictGiven,
    VerdictUndone,
)
from core.protocol.review import Change, ChangeDiff, Origin, Verdict, VerdictRecord
from core.shadow.absorb import Absorber
from core.shadow.blobs import BlobStore
from core.shadow.bulks import Bulks
from core.shadow.checkpoints import Checkpoints, Parts
from core.shadow.conflicts import Conflicts
from core.shadow.contents import Contents, content_of
from core.shadow.difflines import difference
from core.shadow.editing import Edited, Editing, Left
from core.shadow.gitstate.beforehand import Ready
from core.shadow.journal import Intent, Journal
from core.shadow.layers import Kept, LayerDirs, Layers
from core.shadow.moving.pairs import Pairs
from core.shadow.pending import PendingLayer
from core.shadow.promote import Promotion
from core.shadow.review import ReviewState
from core.shadow.rework import Rework
from core.shadow.risks import Risks
from core.shadow.seen import LARGEST, Seen
from core.shadow.tally import kept_files, layers_changed
from core.shadow.tracking import Tracking
from core.shadow.verdicts import Verdicts
from core.workspace import Entry, IgnoreRules, PathStat, Workspace

Emit = Callable[[AnyEvent], None]


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
        self.workspace, self.state, self.blobs = workspace, state, blobs
        self.ignore = IgnoreRules(workspace)
        self._emit = self._heeding(emit)
        self._contents = Contents(blobs)
        session = blobs.directory.parent
        self.layers = Layers(session / "layers")
        journal = Journal(session / "journal.jsonl")
        self._promotion = Promotion(workspace, blobs, journal, step=step, gone=lambda: self.layers.kept.gone)
        self._verdicts = Verdicts(workspace, self._contents, self._promotion, self._emit, state)
        self._editing = Editing(workspace, self._contents, self._emit, state)
        self.seen = Seen(workspace, self._contents, state, self.layers, self._editing.shown)
        self._pending = PendingLayer(self.layers, self._contents, self.seen)
        classes = Tracking(workspace, self.seen).classes
        self._absorber = Absorber(workspace, self._contents, self.layers, self.seen, self._editing, classes)
        self.bulks = Bulks(workspace, self.layers, self.seen, state, blobs, step)
        self.checkpoints = Checkpoints(
            Parts(
                workspace=workspace,
                contents=self._contents,
                promotion=self._promotion,
                verdicts=self._verdicts,
                bulks=self.bulks,
                state=state,
                layers=self.layers,
                seen=self.seen,
                emit=self._emit,
            )
        )
        self._pairs, self._risks = Pairs(self._contents, state), Risks(workspace, self._contents, self.seen, state)
        self.rework = Rework(self._contents, self._emit, state)
        self.conflicts = Conflicts(workspace, self._contents, self._emit, state)

    def _heeding(self, emit: Emit) -> Emit:
        """What the project has got from the review must not be hidden by what commands left behind."""

        def tell(event: AnyEvent) -> None:
            if isinstance(event, FileWritten):
                change = self.state.changes.get(event.path)  # none: a verdict is undone, and it will be pending again
                self.seen.forget(event.path, shows=change is not None and change.pending.kind != "absent")
            emit(event)

        return tell

    # reading

    def changes(self) -> tuple[Change, ...]:
        """All pending changes by path."""
        return tuple(self.state.changes[path] for path in sorted(self.state.changes))

    def kept_files(self) -> Iterator[str]:
        """The files of ignored paths that the layers hold: what is decided in bulk, without git's own."""
        return kept_files(self.layers.kept, self.seen)

    def read(self, rel: str, limit: int | None = None) -> bytes | None:
        """The bytes (at most `limit`) of a file as the agent sees it; None when it does not exist.

        `PathRefused`: not a regular file, outside, or kept from the agent.
        """
        real = self._allowed(rel)
        limit = LARGEST if limit is None else limit
        node = None if self.seen.is_bare else self.seen.node(real)
        if node is None and not self.seen.is_bare:
            return None
        try:
            return self.workspace.read_bytes(real, limit) if node is None else self.seen.read(real, node, limit)
        except PathRefused as error:
            if error.code == "not_found":
                return None
            raise

    def _allowed(self, rel: str) -> str:
        """The path that the links of the tree lead to; `PathRefused`: outside, or kept from the agent."""
        self.ignore.refuse_withheld(rel)
        real = self.seen.canonical(rel)
        if real != rel:
            self.ignore.refuse_withheld(real)
        return real

    def stat(self, rel: str) -> PathStat | None:
        """What is there as the agent sees it; None: nothing."""
        real = self._allowed(rel)
        if self.seen.is_bare:
            return self.workspace.stat(real)
        node = self.seen.node(real)
        if node is None:
            return None
        disk = None if node.pending or node.layered else self.workspace.stat(real)
        return disk or PathStat(kind=node.kind, size=node.size, mode=node.mode)

    def list_dir(self, rel: str = ".") -> tuple[Entry, ...]:
        """The entries of a directory, shadow over workspace: directories first, then the rest, each by name."""
        real = self.seen.canonical(rel)
        node = self.seen.node(real)
        if self.seen.is_bare or (node is not None and node.kind != "directory" and not node.pending):
            return self.workspace.list_dir(real)
        if node is None:
            raise PathRefused(f"{rel!r} does not exist.", code="not_found")
        if node.kind != "directory":
            raise PathRefused(f"{rel!r}: Not a directory.")
        found = [Entry(name=name, kind=kind) for name, kind in self.seen.names(real).items()]
        return tuple(sorted(found, key=lambda each: (each.kind != "directory", each.name)))

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
        path = self.seen.entry(rel) if data is None else self.seen.canonical(rel)
        self._refuse_unwritable(rel, path, creates=data is not None)
        seen = None if self.seen.stack.find(path) is None else self.seen.state_below(path)
        edited = self._editing.edit(path, data, origin=origin, mode=mode, seen=seen)
        if seen is not None and path not in self.state.changes:
            self.seen.forget(path)
        self.look_around()
        return edited

    def look_around(self) -> None:
        """Find renames among the pending changes, and mark those that what stands around them has made red."""
        self._find_renames()
        with self.seen.still():
            revised = self._risks.revised()
        for change in revised:
            self._emit(ChangeRevised(change=change))

    def _find_renames(self) -> None:
        for change in self._pairs.revised():
            self._emit(ChangeRevised(change=change))

    def _refuse_unwritable(self, rel: str, path: str, *, creates: bool) -> None:
        if self.workspace.is_git_internal(path) or self.workspace.is_git_internal(rel):
            raise PathRefused(f"{rel!r} is inside .git, which is never written.", code="path_protected")
        if path == ".":
            raise PathRefused("The workspace itself is a directory, not a file.", code="not_a_file")
        self.ignore.refuse_withheld(path)
        if creates and path in self.seen.live_directories():
            raise PathRefused(f"{rel!r} is a directory: files in it are pending.", code="not_a_file")
        parts = path.split("/")
        for count in range(1, len(parts)) if creates else ():
            self._refuse_file_as_directory("/".join(parts[:count]))

    def _refuse_file_as_directory(self, above: str) -> None:
        node = self.seen.node(above)
        if node is not None and node.kind != "directory":
            what = "a pending file" if node.pending else "a file"
            raise PathRefused(f"{above!r} is {what}; nothing can be created below it.", code="not_a_directory")

    def join(self, left: Left) -> Change | None:
        """Merge what another session made of a path into what is pending here; see `Editing.join`. What is pending
        then; None: nothing. `PathRefused` as for `edit`."""
        self._refuse_unwritable(left.path, left.path, creates=left.wanted.kind != "absent")
        joined = self._editing.join(left)
        self.look_around()
        return joined

    # commands

    def lowers(self) -> tuple[Path, ...]:
        """What a command sees over the workspace, topmost first: the pending layer, brought up to date, and the kept
        ones. `StateError`: it can't be laid out."""
        shown = {path: self._editing.shown(change) for path, change in self.state.changes.items()}
        pending = self._pending.sync(shown)
        return (pending, *self.layers.stack()) if pending else self.layers.stack()

    def open_layer(self) -> LayerDirs:
        """A fresh layer for one command, to be given to `absorb` or `drop_layer`. `StateError`: no room."""
        self.lowers()
        seen = {path: self._editing.shown(change) for path, change in self.state.changes.items()}
        return self.layers.create(seen)

    def absorb(self, layer: LayerDirs, *, origin: Origin, started_ns: int) -> EffectsRecorded:
        """Take in what a command left in its layer: reviewed files become pending changes, the rest is kept beside.

        `started_ns`: when it was started (ns since 1970). Emits `change.*`, `layers.changed` and `effects.recorded`;
        the last one is returned. The layer is closed; when `StateError` is raised it is not, and can be dropped.
        """
        effects = self._absorber.absorb(layer, origin, started_ns, self._pending, self._emit)
        self.look_around()
        return effects

    def drop_layer(self, layer: LayerDirs) -> None:
        """Throw away what a command left."""
        self.layers.close(layer.id, keep=False)

    def squash(self) -> None:
        """Make one of all kept layers, if no command runs over them; see whether the project has moved on below."""
        if self.layers.squash():
            self._emit(layers_changed(self.layers, self.seen))
        self.check_bulks()

    def check_bulks(self) -> None:
        """Say of each bulk whether the project has moved on below it: then accepting it is refused."""
        if self.state.bulks:
            self.bulks.look(self._emit)

    def accept_files(self, paths: Sequence[str]) -> list[VerdictRecord]:
        """Accept all of some pending files in one transaction: every one of them, or none. Raises as `resolve`."""
        try:
            return self._verdicts.accept_files(paths)
        finally:
            self._find_renames()

    def resolve_bulk(
        self, root: str, verdict: Verdict = "accept", reason: str = "", *, ready: Ready | None = None
    ) -> VerdictRecord:
        """Accept (carry into the project, durable when this returns) or reject a bulk, by its root. All or nothing.
        `ready`: what `bulks.ready` gave.

        `CommandRejected`: there is none; `ReviewConflict`: the project has changed there; `PromotionFailed`.
        """
        return self.bulks.resolve(root, verdict, reason, self._emit, ready=ready)

    def beside(self) -> list[str]:
        """The directories, beside the layers, that undoing verdicts on bulks needs."""
        return self.bulks.again.named()

    # reviewing

    def diff(self, rel: str, context: int = 3) -> ChangeDiff | None:
        """A pending change with its lines; None: nothing is pending there. `context` -1 = the whole file."""
        change = self.state.changes.get(rel)
        if change is None:
            return None
        try:
            with content_of(rel):
                old, new = self._contents.data(change.counted), self._contents.data(change.pending)
        except ContentLost as lost:
            return ChangeDiff(change=change, lines=(), note=lost.explained())
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
        before = self.state.changes.get(rel)
        found = self._verdicts.check_disk(rel)
        if found is not before and self._pairs.concerns(rel):
            self._find_renames()
        return self.state.changes.get(rel)

    def resolve(
        self, path: str, hunk_ids: tuple[str, ...] = (), verdict: Verdict = "accept", reason: str = ""
    ) -> list[VerdictRecord]:
        """Accept or reject hunks (none named: all) of a path ("": of all changes that are not protected).

        Accepted hunks are on disk when this returns. All or nothing; raises `CommandRejected` (not pending),
        `ReviewConflict`, `PathRefused` or `PromotionFailed`.
        """
        self._find_renames() if path else self.look_around()
        try:
            return self._verdicts.resolve(path, hunk_ids, verdict, reason)
        finally:
            self._find_renames()

    def undo(self, verdict_id: str = "") -> VerdictRecord:
        """Take a verdict back ("": the latest that stands): its hunks, or its bulk, are pending again."""
        standing = {each.id: each for each in self.state.verdicts}
        record = standing.get(verdict_id or next(reversed(standing), ""))
        if record is not None and record.bulk is not None:
            return self.bulks.undo(record.id, self._emit)
        taken_back = self._verdicts.undo(verdict_id)
        self.look_around()
        return taken_back

    def recover(self) -> list[str]:
        """Finish or take back what a crash left half done; before anything else. Sentences for the user."""
        told = self._promotion.recover(self._emit, self._is_news)
        told += self.bulks.recover(self._emit)
        self._find_renames()
        return [*told, *self._recovered_layers()]

    def _recovered_layers(self) -> list[str]:
        if not self.layers.exists:
            return []
        told = []
        if lost := self.layers.missing():
            self.layers.record(Kept(gone=self.layers.kept.gone))
            told.append(f"What commands left beside the review is gone with the memory it was in ({len(lost)} layers).")
        self.layers.sweep([self._pending.name, *self.beside()])
        with suppress(OSError):
            self.layers.prune()
        if self.state.layers != self.layers.kept.layers:
            self._emit(layers_changed(self.layers, self.seen))
        self.check_bulks()
        return told

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
