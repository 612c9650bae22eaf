"""Turns a command's layer into pending changes and a retained layer, by the ignore rules and git's index."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, StateError
from core.filesystem.open_beneath import open_parent
from core.filesystem.overlay_support import is_whiteout
from core.filesystem.removal import remove_path
from core.git.index import NO_TRACKED_PATHS, TrackedPaths, parse_index
from core.git.layout import find_repository
from core.git.reflog import GitMoves
from core.protocol.events import AnyEvent, EffectsRecorded
from core.protocol.paths import is_below
from core.protocol.review import Change, FileState, Origin
from core.shadow.bulk.bulk_summary import build_layers_changed
from core.shadow.content.paths import AnyAncestor
from core.shadow.layer_sorting import LayerSorting
from core.shadow.layers.layer_files import fingerprint_file
from core.shadow.layers.layer_store import CommandLayer, RetainedLayers, RetainedTop, drop_covered
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import LayerEntry, get_layer_path, scan_layer
from core.shadow.layers.path_classes import PathClasses
from core.shadow.layers.pending_layer import PendingLayer
from core.shadow.layers.prune import prune_directories, prune_retained
from core.shadow.review.proposals import PathEffect, Proposals
from core.workspace import ABSENT, IgnoreRules
from core.workspace.file_names import from_os_name, is_git_internal
from core.workspace.path_status import PERMISSION_BITS, read_state_at

_MAX_RULES_BYTES = 1_000_000  # bytes of an ignore file
_MAX_INDEX_BYTES = 256 << 20
_HEAD_LOG = "logs/HEAD"
CHANGED_DURING_COMMAND = "the file was changed in the project while the command ran."


class TrackedTree:
    """The tracked paths of one session's tree. The parsed index is cached until its file changes."""

    def __init__(self, tree: MergedTree) -> None:
        self._tree = tree
        self._known: tuple[tuple[str, int, int, int], TrackedPaths] | None = None

    def build_classes(self, layer: CommandLayer) -> PathClasses:
        """Build the path classes of the tree with `layer` on top."""
        rules = IgnoreRules(self._tree.workspace, lambda rel: self._read_rules(layer.upper, rel))
        return PathClasses(rules.open_snapshot(), lambda: self._read_tracked(layer.upper))

    def _read_rules(self, upper: Path, rel: str) -> bytes | None:
        path = get_layer_path(upper, rel)
        with suppress(OSError):
            stats = path.lstat()
            if not stat.S_ISREG(stats.st_mode):
                return None if is_whiteout(stats) else b""
            return path.read_bytes()[:_MAX_RULES_BYTES]
        node = self._tree.find_node(rel)
        try:
            return self._tree.read(rel, node, _MAX_RULES_BYTES) if node is not None and node.kind == "file" else None
        except PathRefused:
            return None

    def _read_tracked(self, upper: Path) -> TrackedPaths:
        path, below = upper / ".git" / "index", b""
        if not path.is_file():
            node = self._tree.find_below_pending(".git/index")
            if node and node.layered:
                path = Path(os.fsdecode(node.layered.location))
            else:
                path, below = self._find_disk_index()
        try:
            stats = path.stat()
        except OSError:
            return NO_TRACKED_PATHS
        signature = (str(path), stats.st_mtime_ns, stats.st_size, stats.st_ino)
        if self._known is None or self._known[0] != signature:
            tracked_paths = _read_index_file(path)
            self._known = (signature, tracked_paths.select_below(below) if below else tracked_paths)
        return self._known[1]

    def _find_disk_index(self) -> tuple[Path, bytes]:
        """Return the path of the index, and the workspace's prefix in its repository (b"" for the root)."""
        root = self._tree.workspace.root
        repository = find_repository(root)
        if repository is None:
            return root / ".git" / "index", b""
        return repository.own / "index", os.fsencode(
            root.relative_to(repository.root)
        ) if repository.root != root else b""


def _read_index_file(path: Path) -> TrackedPaths:
    with suppress(OSError):
        if path.stat().st_size <= _MAX_INDEX_BYTES:
            return parse_index(path.read_bytes()) or NO_TRACKED_PATHS
    return NO_TRACKED_PATHS


class Absorber:
    """Absorb the layers of one session's commands."""

    def __init__(self, tree: MergedTree, proposals: Proposals, emit: Callable[[AnyEvent], None]) -> None:
        self._workspace, self._contents, self._layers, self._tree = tree.workspace, tree.contents, tree.layers, tree
        self._proposals = proposals
        self._build_classes = TrackedTree(tree).build_classes
        self._emit = emit

    def absorb(self, layer: CommandLayer, origin: Origin, started_ns: int, pending: PendingLayer) -> EffectsRecorded:
        """Absorb one layer; see `Shadow.absorb`."""
        if layer.id not in self._layers.open_layers:
            raise StateError(f"The layer {layer.id} is not open.", code="layer_closed")
        try:
            with self._tree.cache_lookups():
                sorting = LayerSorting(layer.upper, scan_layer(layer.upper), self._tree, self._build_classes(layer))
                sorting.sort()
                git_moves = "; ".join(self._describe_git_moves(layer, sorting))
                path_effects = self._collect_effects(layer, sorting, origin, started_ns)
                for path_effect in path_effects:
                    if path_effect.path in sorting.puts and not self._is_hidden_without_layer(path_effect, sorting):
                        pending.adopt(path_effect.path, path_effect.result, sorting.get_path(path_effect.path))
                sorting.clear_layer()
                retained_layers, count = self._build_retained(layer, sorting, origin, started_ns)
        except OSError as error:
            raise StateError(f"What the command wrote can't be read: {error.strerror}: {error.filename!r}.") from error
        pending.record_seen({path_effect.path: path_effect.result for path_effect in path_effects})
        changes = self._record_effects(path_effects)
        self._retain_layer(layer, retained_layers, tuple(sorting.tops))
        self._drop_replaced(sorting)
        effects = _build_effects(origin, path_effects, changes, tuple(sorting.describe_dropped()))
        folders, removed_folders = tuple(sorted(sorting.folders)), tuple(sorted(sorting.removed_folders))
        effects = replace(effects, folders=folders, removed_folders=removed_folders, git=git_moves, generated=count)
        self._emit(effects)
        return effects

    def _describe_git_moves(self, layer: CommandLayer, sorting: LayerSorting) -> Iterator[str]:
        """Yield a description of what became of the references of each repository that the command wrote to."""
        roots = dict.fromkeys(path for path, top in sorting.tops.items() if top.kind == "git")
        scanned_entries = scan_layer(layer.upper).entries if roots else ()  # sorting has removed what is unchanged
        for root in roots:
            entries = [entry for entry in scanned_entries if is_below(entry.path, root)]
            names = [entry.path.removeprefix(f"{root}/") for entry in entries if entry.kind in {"file", "whiteout"}]
            references = tuple(
                name[5:] for name in names if name.startswith("refs/") and self._has_moved(root, name, sorting)
            )
            head = self._read_git_file(root, "HEAD", sorting)
            log, before = self._read_git_file(root, _HEAD_LOG, sorting), self._read_git_file(root, _HEAD_LOG)
            moves = GitMoves(
                log=log.removeprefix(before) if _HEAD_LOG in names else b"",
                branch=os.fsdecode(head.strip()).removeprefix("ref: refs/heads/") if head.startswith(b"ref:") else "",
                references=references,
                has_staged="index" in names,
            )
            if description := moves.describe():
                directory = root.rpartition("/")[0]
                yield f"in {directory}: {description}" if directory else description

    def _has_moved(self, root: str, name: str, sorting: LayerSorting) -> bool:
        return self._read_git_file(root, name, sorting) != self._read_git_file(root, name)

    def _read_git_file(self, root: str, name: str, sorting: LayerSorting | None = None) -> bytes:
        """Read a file of git as the command left it, or without `sorting`, as it was before; b"" = there is none."""
        path = f"{root}/{name}"
        with suppress(OSError, PathRefused):
            if sorting is not None and os.path.lexists(sorting.get_path(path)):
                return sorting.get_path(path).read_bytes()
            node = self._tree.find_node(path)
            return self._tree.read(path, node, _MAX_INDEX_BYTES) if node is not None and node.kind == "file" else b""
        return b""

    def _is_hidden_without_layer(self, effect: PathEffect, sorting: LayerSorting) -> bool:
        """True if the project's content equals the command's, but a directory of the layer would hide it."""
        with suppress(PathRefused):
            return sorting.is_closed(effect.path) and self._tree.read_disk_state(effect.path) == effect.result
        return False

    def _retain_layer(
        self, layer: CommandLayer, retained_layers: RetainedLayers, touched_paths: tuple[str, ...]
    ) -> None:
        before = self._layers.retained
        if retained_layers != before:
            self._layers.write_record(retained_layers)
        is_kept = layer.id in retained_layers.layers
        self._layers.close(layer.id, keep=is_kept)
        if not is_kept:
            return
        self._layers.squash()
        self._record_retained(prune_retained(self._tree, touched_paths))
        if before.layers or self._layers.retained.layers:
            self._emit(build_layers_changed(self._tree))

    def _record_retained(self, retained_layers: RetainedLayers) -> None:
        """Write the record, and close the layers that it no longer names."""
        if not retained_layers.tops and not self._layers.open_layers:
            retained_layers = replace(retained_layers, layers=())
        if retained_layers != self._layers.retained:
            self._layers.switch_to(retained_layers)

    def _drop_replaced(self, sorting: LayerSorting) -> None:
        """Drop the record entries of removed directories: their modes, and everything below one that became a file."""
        retained_layers = self._layers.retained
        is_below = AnyAncestor(sorting.replaced.__contains__)
        dropped_paths = {
            path
            for path, top in retained_layers.tops.items()
            if (top.kind == "directory" and path in sorting.gone) or path in sorting.replaced or is_below(path)
        }
        if not dropped_paths:
            return
        tops = {path: top for path, top in retained_layers.tops.items() if path not in dropped_paths}
        self._layers.unshare()
        for layer in self._layers.list_uppers():
            for path in dropped_paths:
                if retained_layers.tops[path].kind != "directory":
                    remove_path(get_layer_path(layer, path))
                prune_directories(layer, path)
        self._record_retained(replace(self._layers.retained, tops=tops))
        self._emit(build_layers_changed(self._tree))

    # reviewed files

    def _collect_effects(
        self, layer: CommandLayer, sorting: LayerSorting, origin: Origin, started_ns: int
    ) -> list[PathEffect]:
        """Collect the effects on reviewed paths, deletions first."""
        states: dict[str, FileState] = {path: self._read_state(sorting, entry) for path, entry in sorting.puts.items()}
        target_states = dict.fromkeys(sorting.deletes, ABSENT) | states
        deletions_first = sorted(target_states, key=lambda path: (target_states[path].kind != "absent", path))
        effects = []
        for path in deletions_first:
            previous_state, conflict_reason = self._read_previous(path, layer, sorting, started_ns)
            effects.append(
                PathEffect(
                    path=path,
                    base=previous_state,
                    result=target_states[path],
                    origin=origin,
                    conflict_reason=conflict_reason,
                )
            )
        effects = [effect for effect in effects if effect.result != effect.base]
        renames = {new: self._proposals.find_original_path(old) for new, old in _find_renames(effects).items()}
        return [replace(effect, renamed_from=renames.get(effect.path, "")) for effect in effects]

    def _read_state(self, sorting: LayerSorting, entry: LayerEntry) -> FileState:
        path = sorting.get_path(entry.path)
        with open_parent(os.fsencode(path)) as (directory, name):
            if entry.kind == "file" and entry.mode & 0o7400 != 0o400:
                path.chmod(entry.mode & 0o777 | 0o400)
            state, data = read_state_at(directory, name, entry.path)
        if entry.kind == "file":
            state = replace(state, mode=entry.mode & PERMISSION_BITS)
            path.chmod(state.mode)
        return self._contents.store(state, data)

    def _read_previous(
        self, path: str, layer: CommandLayer, sorting: LayerSorting, started_ns: int
    ) -> tuple[FileState, str]:
        """Return the state of a path before the command, and why that is uncertain ("" = it is certain)."""
        if path in layer.pending_states:
            return layer.pending_states[path], ""
        if path in sorting.replaced:
            return ABSENT, ""
        try:
            previous_state = (
                self._tree.read_disk_state(path) if path in sorting.unhidden else self._tree.read_state_below(path)
            )
        except PathRefused as error:
            return ABSENT, error.message
        return previous_state, CHANGED_DURING_COMMAND if self._is_newer(path, started_ns) else ""

    def _is_newer(self, path: str, started_ns: int) -> bool:
        """True if the workspace's file changed after the command began (`started_ns`, ns since 1970)."""
        if self._tree.stack.find(path) is not None:
            return False
        with suppress(OSError), self._workspace.open_parent(path) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_ctime_ns >= started_ns
        return False

    def _record_effects(self, effects: list[PathEffect]) -> dict[str, Change | None]:
        """Record the effects; map their paths to the pending changes, or to None where nothing is pending."""
        changes: dict[str, Change | None] = {}
        for effect in effects:
            try:
                changes[effect.path] = self._proposals.record_effect(effect)
            except StateError:
                raise
            except AgentTuiError:
                changes[effect.path] = None
            if effect.result.kind == "absent" and changes[effect.path] is None:
                self._tree.forget(effect.path)
        return changes

    # bulks

    def _build_retained(
        self, layer: CommandLayer, sorting: LayerSorting, origin: Origin, started_ns: int
    ) -> tuple[RetainedLayers, int]:
        """Return the record including this layer, and the number of files that stay in the layer."""
        retained_layers = self._layers.retained
        removed_directories = {
            path: mode for path, mode in retained_layers.gone.items() if path not in sorting.returned
        } | sorting.gone
        tops = {
            path: replace(top, origin=origin, since=started_ns)
            for path, top in sorting.tops.items()
            if os.path.lexists(sorting.get_path(path))
        }
        if not tops:
            return replace(retained_layers, gone=removed_directories), 0
        entries = scan_layer(layer.upper).entries
        # A file that such a directory replaces is a reviewed file: its deletion is a change.
        replacing = {path for path, top in tops.items() if top.kind == "directory"}
        paths = [entry.path for entry in entries if entry.path not in replacing]
        paths += [
            git_base for path, top in tops.items() if top.kind == "git" for git_base in self._list_git_bases(path)
        ]
        bases = {path: base for path in paths if (base := self._read_base(path, started_ns)) is not None}
        layers, merged_tops = (*retained_layers.layers, layer.id), _merge_tops(retained_layers.tops, tops)
        record = replace(
            retained_layers,
            layers=layers,
            tops=merged_tops,
            bases=bases | retained_layers.bases,
            gone=removed_directories,
        )
        uncounted = set(sorting.removed_folders)
        counted = (entry for entry in entries if entry.kind != "directory" and entry.path not in uncounted)
        return record, sum(not is_git_internal(entry.path) for entry in counted)

    def _list_git_bases(self, git: str) -> list[str]:
        """List the files of a repository that determine the current commit: a layer is valid only while they are
        unchanged."""
        head = b""
        with suppress(PathRefused):
            head = self._workspace.read_bytes(f"{git}/HEAD")
        prefix, _, name = head.partition(b"ref: ")
        reference = [f"{git}/{from_os_name(name.strip())}"] if not prefix and name.startswith(b"refs/") else []
        return [f"{git}/HEAD", f"{git}/index", *reference]

    def _read_base(self, path: str, started_ns: int) -> FileState | None:
        """Return the workspace's state where the layer replaces it, storing the bytes of git's index. None if there is
        none, or if the file changed while the command ran, so that the state that the command saw is unknown."""
        try:
            if path.endswith(".git/index"):
                state = self._contents.store(*self._workspace.read_state(path))
                return state if state.kind != "absent" else None
            with self._workspace.open_parent(path) as (directory, name):
                if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ctime_ns >= started_ns:
                    return None
                return fingerprint_file(directory, name)
        except (OSError, PathRefused):
            return None


def _merge_tops(old: Mapping[str, RetainedTop], new: Mapping[str, RetainedTop]) -> dict[str, RetainedTop]:
    """Merge tops so that none contains another; an older top preserves its time."""
    tops = dict(old)
    for path, top in new.items():
        old_top = tops.get(path, top)
        tops[path] = replace(top, since=min(top.since, old_top.since), insisted=old_top.insisted)
    return drop_covered(tops)


def _find_renames(effects: list[PathEffect]) -> dict[str, str]:
    """Map created paths to the removed path with the same content and mode, where the match is unique."""
    removed_paths, created_paths = defaultdict[FileState, list[str]](list), defaultdict[FileState, list[str]](list)
    for effect in effects:
        if effect.result.kind == "absent" and effect.base.kind == "file" and effect.base.size:
            removed_paths[effect.base].append(effect.path)
        elif effect.base.kind == "absent" and effect.result.kind == "file" and effect.result.size:
            created_paths[effect.result].append(effect.path)
    pairs = ((created_paths[key], removed_paths[key]) for key in created_paths.keys() & removed_paths.keys())
    return {to[0]: from_[0] for to, from_ in pairs if len(to) == len(from_) == 1}


def _build_effects(
    origin: Origin,
    effects: list[PathEffect],
    changes: Mapping[str, Change | None],
    notes: tuple[str, ...],
) -> EffectsRecorded:

    paths = defaultdict[str, list[str]](list)
    resolved_paths = [path for path, change in changes.items() if change is None]
    for effect in effects:
        if effect.path in resolved_paths:
            continue
        is_new = effect.base.kind == "absent"
        paths["deleted" if effect.result.kind == "absent" else "created" if is_new else "edited"].append(effect.path)
    return EffectsRecorded(
        call=origin.call,
        command=origin.command,
        created=tuple(paths["created"]),
        edited=tuple(paths["edited"]),
        deleted=tuple(paths["deleted"]),
        restored=tuple(sorted(resolved_paths)),
        notes=notes,
    )
