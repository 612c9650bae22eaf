"""The shadow: the pending tree over the workspace. Agents read the merged tree, and write only pending changes.

The shadow never changes the review state itself: it emits events, and the owner of the log applies them to the state.
The bytes that an event names are stored before it is emitted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, Literal, Protocol

from core.errors import ContentLost, PathRefused
from core.permissions.rules import PermissionRule
from core.protocol import events as ev
from core.protocol.paths import list_parents
from core.protocol.review import Change, ChangeDiff, FileState, Origin, Verdict, VerdictRecord
from core.shadow.absorber import Absorber
from core.shadow.bulk.bulk_summary import build_layers_changed
from core.shadow.bulk.bulk_verdicts import BulkVerdicts
from core.shadow.bulk.git_preparation import PreparedGitState
from core.shadow.bulk.staleness_check import StalenessCheck
from core.shadow.content.blob_store import BlobStore
from core.shadow.content.contents import Contents, explain_lost_content
from core.shadow.diff.diff_lines import CONTEXT, MAX_WIDTH, build_diff
from core.shadow.file_checkpoints import FileCheckpoints, PlanWrites
from core.shadow.layers.layer_stack import HIDDEN, LayeredEntry, LayerStack, StackListing
from core.shadow.layers.layer_store import CommandLayer, LayerStore, RetainedLayers
from core.shadow.layers.merged_tree import MergedTree, TreeNode, build_node
from core.shadow.layers.pending_layer import PendingLayer
from core.shadow.promotion.journal import IntentRecord, Journal
from core.shadow.promotion.promotion import Promotion, ignore_step
from core.shadow.review.conflicts import Conflicts
from core.shadow.review.hunk_edits import HunkEdits
from core.shadow.review.proposals import PathEffect, Proposals, ShadowEdit
from core.shadow.review.rename_pairs import RenamePairs
from core.shadow.review.risks import Risks
from core.shadow.review.verdicts import Verdicts
from core.shadow.review.write_rules import LoadRules
from core.state.review import ReviewState
from core.workspace import MAX_EDITED_BYTES, DirectoryEntry, IgnoreRules, PathStat, Workspace
from core.workspace.file_names import is_git_internal
from core.workspace.path_status import PathKind, classify_mode
from core.workspace.plan_folder import PlanFolder

MAX_COMMAND_FILES: Final = 2_000  # that a search reads
_REMOVED: Final = TreeNode(kind="other", mode=0)


class LiveTree(Protocol):
    """The files of a command that is running, as far as they are its own and the project has nothing newer."""

    @property
    def upper(self) -> Path:
        """Its layer."""

    def find(self, path: str) -> LayeredEntry | Literal["hidden"] | None:
        """Return its entry at a path; HIDDEN: it has removed that; None: it has none."""

    def list_directory(self, path: str) -> StackListing:
        """Return all entries of its layer in a directory."""


class Shadow:
    """One session's pending changes. `step` is called between the effects of a promotion; `load_rules` returns the
    rules, of which those that deny writing apply to all verdicts."""

    def __init__(
        self,
        workspace: Workspace,
        blobs: BlobStore,
        emit: Callable[[ev.AnyEvent], None],
        state: ReviewState,
        *,
        step: Callable[[str], None] = ignore_step,
        load_rules: LoadRules = tuple,
    ) -> None:
        self.workspace, self.state, self.blobs, self._log = workspace, state, blobs, emit
        self.ignore = IgnoreRules(workspace)
        session = blobs.directory.parent
        self.layers = LayerStore(session / "layers")
        self._promotion = Promotion(
            workspace, blobs, Journal(session / "journal.jsonl"), self._emit_promoted, self.layers, step
        )
        self.dates = self._promotion.dates
        self._contents = contents = Contents(blobs)
        review = (workspace, contents, emit, state)
        self.hunk_edits, self.conflicts = HunkEdits(*review), Conflicts(*review)
        self._proposals = Proposals(*review)
        tree = MergedTree(workspace, contents, state, self.layers, self._proposals.get_visible_state)
        self.merged_tree = tree
        self.load_rules = load_rules
        self._risks = Risks(tree, emit, self._list_rules)
        self._verdicts = Verdicts(*review, self._promotion, self._risks.write_rules)
        self._pending_layer = PendingLayer(tree, self.dates)
        self._absorber = Absorber(tree, self._proposals, emit)
        self.bulks = BulkVerdicts(tree, emit, step, self._risks.write_rules)
        self._staleness_check = StalenessCheck(tree, self.bulks, self._pending_layer, emit)
        self.plans = PlanWrites(PlanFolder(workspace), contents, emit)
        self.checkpoints = FileCheckpoints(tree, self._promotion, self._verdicts, self.bulks, self.plans)
        self._rename_pairs = RenamePairs(contents, state, emit)
        self.live_trees: list[LiveTree] = []  # of the commands that run in the background, the latest first

    def _emit_promoted(self, event: ev.AnyEvent) -> None:
        """Log the event, and make the layers stop hiding what the project gets from the review."""
        if isinstance(event, ev.FileWritten | ev.PlanWritten) and self.layers.retained.layers:
            # None: a verdict is undone, and its change becomes pending again.
            change = self.state.changes.get(event.path)
            self.merged_tree.forget(event.path, shows=change is not None and change.pending.kind != "absent")
        self._log(event)

    # reading

    def list_changes(self) -> tuple[Change, ...]:
        """Return all pending changes, sorted by path."""
        return tuple(self.state.changes[path] for path in sorted(self.state.changes))

    def read_base(self, change: Change) -> bytes:
        """Return the base content of a change; b"" if that was no file."""
        return self._contents.read(change.base) if change.base.kind == "file" else b""

    def read_sides(self, change: Change) -> tuple[bytes, bytes]:
        """Return the two contents between which the hunks of a change are counted; b"" for a side that is no file."""
        old, new = (
            self._contents.read(state) if state.kind == "file" else b""
            for state in (change.counted_state, change.pending)
        )
        return old, new

    def read(self, rel: str, limit: int = MAX_EDITED_BYTES) -> bytes | None:
        """Return the bytes (at most `limit`) of a file as the agent sees it; None if it does not exist.

        Raises `PathRefused`: not a regular file, outside of the workspace, or withheld from the agent.
        """
        real = self._resolve_allowed(rel)
        try:
            node = self._find_live_node(real)
            if node is None and self.merged_tree.is_workspace_only:
                return self.workspace.read_bytes(real, limit)
            node = node or self.merged_tree.find_node(real)
            if node is _REMOVED:
                return None
            return None if node is None else self.merged_tree.read(real, node, limit)
        except PathRefused as error:
            if error.code != "not_found":
                raise
            return None

    def read_existing(self, rel: str, limit: int = MAX_EDITED_BYTES) -> bytes:
        """Like `read`, but raise `PathRefused` (`not_found`) for a file that does not exist."""
        data = self.read(rel, limit)
        if data is None:
            raise PathRefused(f"{rel!r} does not exist.", code="not_found")
        return data

    def _resolve_allowed(self, rel: str) -> str:
        """Return the path with links resolved. Raises `PathRefused`: outside of the workspace, or withheld from the
        agent."""
        self.ignore.refuse_withheld(rel)
        real = self.merged_tree.resolve_links(rel)
        if real != rel:
            self.ignore.refuse_withheld(real)
        return real

    def _find_live_node(self, path: str) -> TreeNode | None:
        """Return what a running command has left at a path; `_REMOVED`: nothing any more; None: no command has left
        anything there."""
        for tree in self.live_trees:
            entry = tree.find(path)
            if entry is not None:
                return _REMOVED if entry == HIDDEN else build_node(entry.stats, entry)
        return None

    def stat(self, rel: str) -> PathStat | None:
        """Return the status of a path as the agent sees it; None if it does not exist."""
        real = self._resolve_allowed(rel)
        node = self._find_live_node(real)
        if node is None and self.merged_tree.is_workspace_only:
            return self.workspace.stat(real)
        node = node or self.merged_tree.find_node(real)
        if node is None or node is _REMOVED:
            return None
        disk = None if node.pending or node.layered else self.workspace.stat(real)
        return disk or PathStat(kind=node.kind, size=node.size, mode=node.mode)

    def list_dir(self, rel: str = ".") -> tuple[DirectoryEntry, ...]:
        """Return the entries of a directory in the merged tree: directories first, then the rest, sorted by name."""
        real, is_ignored = self.merged_tree.resolve_links(rel), self.ignore.match_in(rel)
        live_names = self._list_live_names(real)
        names: Mapping[str, PathKind | None] = self._list_names(rel, real, can_be_missing=bool(live_names))
        names = {**names, **live_names}
        entries = [
            DirectoryEntry(name=name, kind=kind, ignored=is_ignored(name, kind == "directory"))
            for name, kind in names.items()
            if kind is not None
        ]
        return tuple(sorted(entries, key=lambda entry: (entry.kind != "directory", entry.name)))

    def _list_names(self, rel: str, real: str, *, can_be_missing: bool) -> Mapping[str, PathKind]:
        """Return the entries of a directory without those that running commands have left. Raises `PathRefused`."""
        node = self.merged_tree.find_node(real)
        if node is None and can_be_missing:
            return {}
        if self.merged_tree.is_workspace_only or (node is not None and node.kind != "directory" and not node.pending):
            return {entry.name: entry.kind for entry in self.workspace.list_dir(real)}
        if node is None:
            raise PathRefused(f"{rel!r} does not exist.", code="not_found")
        if node.kind != "directory":
            raise PathRefused(f"{rel!r}: Not a directory.")
        return self.merged_tree.list_names(real)

    def _list_live_names(self, path: str) -> dict[str, PathKind | None]:
        """Return what running commands have left in a directory, with the kinds; None: it was removed."""
        names: dict[str, PathKind | None] = {}
        for tree in reversed(self.live_trees):
            for name in tree.list_directory(path).entries:
                entry = tree.find(name if path == "." else f"{path}/{name}")
                if entry is not None:
                    names[name] = None if entry == HIDDEN else classify_mode(entry.stats.st_mode)
        return names

    def list_command_files(self, rel: str) -> tuple[str, ...]:
        """Return the regular files at and below a path that the agent sees as commands have left them, and that are no
        pending changes: what running commands have written, and what git ignores of it if `rel` is ignored itself. At
        most `MAX_COMMAND_FILES`; `rel` is the normalised path."""
        if (node := self._find_unlisted_node(rel)) is not None and node.kind == "file":
            return (rel,)
        is_ignored = self.ignore.is_ignored(rel, True)
        paths = self._walk_command_files(rel, is_ignored=is_ignored) if self.live_trees or is_ignored else ()
        return tuple(islice(paths, MAX_COMMAND_FILES))

    def _find_unlisted_node(self, path: str) -> TreeNode | None:
        """Return what a command has left at a path, unless it is pending."""
        node = self._find_live_node(path) or self.merged_tree.find_node(path)
        return None if node is None or node is _REMOVED or node.pending or not node.layered else node

    def _walk_command_files(self, rel: str, *, is_ignored: bool) -> Iterator[str]:
        waiting = [rel]
        while waiting:
            directory = waiting.pop()
            names = self._list_live_names(directory)
            entries = self.merged_tree.stack.list_directory(directory).entries if is_ignored else {}
            for name, entry in entries.items():
                if entry is not None:
                    names.setdefault(name, classify_mode(entry.stats.st_mode))
            is_skipped = self.ignore.match_in(directory)
            for name, kind in sorted(names.items()):
                path = name if directory == "." else f"{directory}/{name}"
                if not is_ignored and is_skipped(name, kind == "directory"):
                    continue
                if kind == "directory":
                    waiting.append(path)
                elif kind == "file" and self._find_unlisted_node(path) is not None:
                    yield path

    def list_open_dir(self, rel: str) -> tuple[DirectoryEntry, ...]:
        """Return `list_dir` without what a `.cursorignore` withholds from the agent; `PathRefused` for such a
        directory."""
        tests = []
        for directory in dict.fromkeys((rel, self.merged_tree.resolve_links(rel))):
            self.ignore.refuse_withheld(directory, is_dir=True)
            tests.append(self.ignore.match_withheld_in(directory))
        return tuple(
            entry
            for entry in self.list_dir(rel)
            if not any(is_withheld(entry.name, entry.kind == "directory") for is_withheld in tests)
        )

    # writing

    def write(self, rel: str, data: bytes, origin: Origin | None = None, mode: int | None = None) -> Change:
        """Create or replace a file in the shadow. See `edit`."""
        return self.edit(rel, data, origin, mode).change

    def delete(self, rel: str, origin: Origin | None = None) -> Change:
        """Remove a file (or a symbolic link itself) in the shadow. See `edit`."""
        return self.edit(rel, None, origin).change

    def edit(self, rel: str, data: bytes | None, origin: Origin | None = None, mode: int | None = None) -> ShadowEdit:
        """Write `data` (None: delete) to a path, on top of its pending state. `mode` None preserves the file's.

        `PathRefused`: below `.git`, outside of the workspace, withheld from the agent, or no path for a file.
        """
        path = self.merged_tree.resolve_parent_links(rel) if data is None else self.merged_tree.resolve_links(rel)
        self._refuse_unwritable(rel, path, creates=data is not None)
        layer_state = None if self.merged_tree.stack.find(path) is None else self.merged_tree.read_state_below(path)
        shadow_edit = self._proposals.edit(path, data, origin=origin, mode=mode, layer_state=layer_state)
        if layer_state is not None and path not in self.state.changes:
            self.merged_tree.forget(path)
        self.refresh_annotations()
        return shadow_edit

    def read_disk_states(self, paths: Iterable[str]) -> dict[str, FileState]:
        """Return the states of these paths in the project itself, with their content stored."""
        return {path: self.merged_tree.read_disk_state(path) for path in paths}

    def capture_disk_edits(self, earlier: Mapping[str, FileState], origin: Origin) -> tuple[str, ...]:
        """Turn a user's program's edits of files since the states `earlier` into pending changes, where nothing else is
        pending, and restore the project's files. Returns their paths. Raises `ReviewConflict` and `PromotionFailed`;
        nothing was restored then."""
        now = self.read_disk_states(path for path in earlier if path not in self.state.changes)
        changed_states = {
            path: state
            for path, state in now.items()
            if state != earlier[path] and state.kind == earlier[path].kind == "file"
        }
        self._promotion.run(
            [self._promotion.plan_write(path, state, earlier[path], None) for path, state in changed_states.items()],
            [ev.FileWritten(path=path, state=earlier[path], before=state) for path, state in changed_states.items()],
        )
        for path, state in changed_states.items():
            self.write(path, self._contents.read(state), origin, state.mode)
        return tuple(changed_states)

    def refresh_annotations(self) -> None:
        """Detect renames among the pending changes, and protect those that their surroundings make risky."""
        self._rename_pairs.refresh()
        self._risks.refresh()

    def _refuse_unwritable(self, rel: str, path: str, *, creates: bool) -> None:
        if is_git_internal(path) or is_git_internal(rel):
            raise PathRefused(f"{rel!r} is inside .git, which is never written.", code="path_protected")
        if path == ".":
            raise PathRefused("The workspace itself is a directory, not a file.", code="not_a_file")
        self.ignore.refuse_withheld(path)
        if creates and path in self.merged_tree.list_live_directories():
            raise PathRefused(f"{rel!r} is a directory: files in it are pending.", code="not_a_file")
        if creates and (twin := self.workspace.find_folded_twin(path, self.merged_tree.list_pending_files())):
            raise PathRefused(
                f"{rel!r} can't be created: on this file system, which ignores case, it is the same as {twin!r}, which "
                "is pending.",
                hint=f"Spell it {twin!r}, or choose another name.",
                code="path_folds",
            )
        for above in list_parents(path) if creates else ():
            node = self.merged_tree.find_node(above)
            if node is not None and node.kind != "directory":
                description = "a pending file" if node.pending else "a file"
                raise PathRefused(
                    f"{above!r} is {description}; nothing can be created below it.", code="not_a_directory"
                )

    def merge_effect(self, effect: PathEffect) -> Change | None:
        """Merge the effect of another session on a path; return the pending change, None if there is none.

        See `Proposals.merge_effect`. Raises `PathRefused` as `edit` does.
        """
        self._refuse_unwritable(effect.path, effect.path, creates=effect.result.kind != "absent")
        merged_change = self._proposals.merge_effect(effect)
        self.refresh_annotations()
        return merged_change

    # commands

    def prepare_lowers(self) -> tuple[Path, ...]:
        """Return the layers between a command and the workspace, topmost first: the updated pending layer, and the
        retained ones. Raises `StateError` if it cannot be written."""
        self.follow_project()
        pending = self._pending_layer.sync(self.list_visible_states())
        return (pending, *self.layers.list_uppers()) if pending else self.layers.list_uppers()

    def follow_project(self) -> None:
        """Set aside retained files where the user's own are newer, and mark stale outputs."""
        self._staleness_check.run(self.list_visible_states())

    def renew(self, paths: Sequence[str]) -> None:
        """Show files to commands with the current time, as something retained was built from other content of them."""
        self._pending_layer.renew(paths)

    def open_layer(self) -> CommandLayer:
        """Open a fresh layer for one command, for `absorb` or `drop_layer`. Raises `StateError`: no space."""
        lowers = (*(tree.upper for tree in self.live_trees), *self.prepare_lowers())
        return self.layers.create(self.list_visible_states(), lowers)

    def list_visible_states(self) -> dict[str, FileState]:
        """Return the pending states that a command started now would see, by path."""
        return {path: self._proposals.get_visible_state(change) for path, change in self.state.changes.items()}

    def get_visible_state(self, path: str) -> FileState | None:
        """Return the pending state of a path that a command started now would see; None: nothing is pending there."""
        change = self.state.changes.get(path)
        return self._proposals.get_visible_state(change) if change is not None else None

    def absorb(self, layer: CommandLayer, *, origin: Origin, started_ns: int) -> ev.EffectsRecorded:
        """Absorb a command's layer: reviewed files become pending changes, the rest becomes a retained layer.

        `started_ns`: when the command was started (ns since 1970). Emits `change.*`, `layers.changed` and
        `effects.recorded`; the last one is returned. The layer is closed; if `StateError` is raised it is not, and can
        be dropped.
        """
        effects = self._absorber.absorb(layer, origin, started_ns, self._pending_layer)
        self.refresh_annotations()
        return effects

    def list_reverted(self, layer: CommandLayer) -> list[str]:
        """Return the pending paths at which a command restored the disk's content: absorbing it would drop their
        changes."""
        layer_stack = LayerStack([layer.upper])
        return [path for path in layer.pending_states if self._equals_disk(path, layer_stack.find(path))]

    def _equals_disk(self, path: str, entry: LayeredEntry | Literal["hidden"] | None) -> bool:
        if entry is None:
            return False
        with suppress(PathRefused, OSError):
            disk, data = self.workspace.read_state(path)
            if isinstance(entry, LayeredEntry):
                return disk.kind == "file" and Path(os.fsdecode(entry.location)).read_bytes() == data
            return disk.kind == "absent"
        return False

    def drop_layer(self, layer: CommandLayer) -> None:
        """Discard a command's layer."""
        self.layers.close(layer.id, keep=False)

    def squash(self) -> None:
        """Join all retained layers into one, if no command runs over them, and check the bulks against the project."""
        if self.layers.squash():
            self._log(build_layers_changed(self.merged_tree))
        self.check_bulks()

    def check_bulks(self) -> None:
        """Emit for every bulk whether the project has changed below it, in which case accepting it is refused."""
        if self.state.bulks:
            self.bulks.check_conflicts()

    def accept_files(self, paths: Sequence[str]) -> list[VerdictRecord]:
        """Accept whole pending files in one transaction: every one of them, or none. Raises as `resolve`."""
        try:
            return self._verdicts.accept_files(paths)
        finally:
            self._rename_pairs.refresh()

    def resolve_bulk(
        self, root: str, verdict: Verdict = "accept", reason: str = "", *, ready: PreparedGitState | None = None
    ) -> VerdictRecord:
        """Accept (write to the project, durable on return) or reject a bulk, by its root. All or nothing. `ready`: the
        result of `bulks.prepare`.

        `CommandRejected`: there is no such bulk; `ReviewConflict`: the project has changed there; `PromotionFailed`.
        """
        return self.bulks.resolve(root, verdict, reason, ready=ready)

    # reviewing

    def diff(self, rel: str, context: int = CONTEXT, width: int = MAX_WIDTH) -> ChangeDiff | None:
        """Return a pending change with its lines; None if nothing is pending there. `context` and `width` as in
        `build_diff`."""
        change = self.state.changes.get(rel)
        if change is None:
            return None
        try:
            with explain_lost_content(rel):
                old, new = self._contents.read_change(change)
        except ContentLost as lost:
            return ChangeDiff(change=change, lines=(), note=lost.format_with_hint())
        return build_diff(change, old, new, context=context, width=width, note=self._describe_links(change))

    def _describe_links(self, change: Change) -> str:
        try:
            stats = self.workspace.stat(change.path) if change.base.kind == "file" else None
        except PathRefused:
            return ""
        if stats is None or stats.kind != "file" or stats.links < 2:
            return ""
        return f"the file has {stats.links} names (hard links): accepting changes this one only"

    def check_disk(self, rel: str) -> Change | None:
        """Compare a pending change with the disk: it is resolved if the disk already has it, re-based when the user's
        edits are elsewhere in the file, else marked as a conflict. Returns the change that is pending now."""
        before = self.state.changes.get(rel)
        change = self._verdicts.check_disk(rel)
        if change is not before and self._rename_pairs.is_involved(rel):
            self._rename_pairs.refresh()
        return self.state.changes.get(rel)

    def resolve(
        self, path: str, hunk_ids: tuple[str, ...] = (), verdict: Verdict = "accept", reason: str = ""
    ) -> list[VerdictRecord]:
        """Accept or reject hunks of a path (no ids: all).

        Accepted hunks are on disk on return. All or nothing; raises `CommandRejected` (not pending), `ReviewConflict`,
        `PathRefused` or `PromotionFailed`.
        """
        self._rename_pairs.refresh()
        try:
            return self._verdicts.resolve(path, hunk_ids, verdict, reason)
        finally:
            self._rename_pairs.refresh()
            if verdict == "reject":
                self.follow_project()

    def _list_rules(self) -> Sequence[PermissionRule]:
        return self.load_rules()

    def refuse_denied(self, paths: Iterable[str]) -> None:
        """Raise `ReviewConflict` if a rule of the user denies writing one of the paths."""
        self._risks.write_rules.refuse(paths)

    def undo(self, verdict_id: str = "") -> VerdictRecord:
        """Undo a verdict ("": the latest that is not undone): its hunks, or its bulk, are pending again."""
        standing = {verdict.id: verdict for verdict in self.state.verdicts}
        record = standing.get(verdict_id or next(reversed(standing), ""))
        if record is not None and record.bulk is not None:
            return self.bulks.undo(record.id)
        record = self._verdicts.undo(verdict_id)
        self.refresh_annotations()
        return record

    def recover(self) -> list[str]:
        """Finish or revert what a crash interrupted; to be called first. Return sentences for the user."""
        sentences = self._promotion.recover(self._is_unlogged)
        sentences.append(self.bulks.recover())
        self._rename_pairs.refresh()
        return [*filter(None, sentences), *self._recover_layers()]

    def _recover_layers(self) -> list[str]:
        if not self.layers.exists:
            return []
        sentences = []
        if missing_layers := self.layers.find_missing():
            self.layers.write_record(RetainedLayers(gone=self.layers.retained.gone))
            subject = "What commands left outside the review"
            sentences.append(f"{subject} was lost with the memory it was in ({len(missing_layers)} layers).")
        self.layers.sweep([self._pending_layer.name, *self.bulks.redo_store.list_directories()])
        with suppress(OSError):
            self.layers.prune_undo()
        if self.state.layers != self.layers.retained.layers:
            self._log(build_layers_changed(self.merged_tree))
        self.check_bulks()
        return sentences

    def _is_unlogged(self, intent: IntentRecord, event: ev.AnyEvent) -> bool:
        standing = {verdict_record.id for verdict_record in self.state.verdicts}
        match event:
            case ev.VerdictGiven(verdict=verdict):
                return verdict.id not in standing and not self._is_outdated(intent, verdict.path)
            case ev.VerdictUndone(id=verdict_id, path=path):
                return verdict_id in standing and not self._is_outdated(intent, path)
            case ev.ChangeProposed() | ev.ChangeRevised():
                return not self._is_outdated(intent, event.change.path)
            case ev.ChangeResolved(path=path):
                return not self._is_outdated(intent, path)
            case _:
                return True

    def _is_outdated(self, intent: IntentRecord, path: str) -> bool:
        """True if the path has another pending state since the transaction, which must not be lost."""
        expected_states = [write.pending for write in intent.writes if write.path == path]
        for event in intent.events:
            match event:
                case ev.ChangeProposed() | ev.ChangeRevised() if event.change.path == path:
                    expected_states.append(event.change.pending)
                case ev.ChangeResolved(path=resolved) if resolved == path:
                    expected_states.append(None)
        change_now = self.state.changes.get(path)
        return (change_now.pending if change_now else None) not in expected_states
