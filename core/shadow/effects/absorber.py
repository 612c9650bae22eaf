"""Turn a command's layer into pending changes and kept layers, without losing anything between the two."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, StateError
from core.filesystem.open_beneath import open_parent
from core.filesystem.removal import remove_path
from core.protocol.events import AnyEvent, EffectsRecorded
from core.protocol.review import Change, FileState, Origin
from core.shadow.bulk.bulk_summary import build_layers_changed
from core.shadow.effects.layer_sorting import LayerSorting
from core.shadow.effects.tracked_tree import TrackedTree
from core.shadow.layers.layer_files import fingerprint_file
from core.shadow.layers.layer_scan import LayerEntry, scan_layer
from core.shadow.layers.layer_store import CommandLayer, KeptLayers, KeptTop, drop_covered
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_place
from core.shadow.layers.pending_layer import PendingLayer
from core.shadow.layers.prune import prune_directories, prune_kept
from core.shadow.paths import AnyAncestor
from core.shadow.review.proposals import PathEffect, Proposals
from core.workspace import ABSENT
from core.workspace.file_names import from_os_name
from core.workspace.path_status import PERMISSION_BITS, read_state_at

CHANGED_DURING_COMMAND = "the file in the project was changed while the command ran."


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
                left = self._collect_effects(layer, sorting, origin, started_ns)
                for each in left:
                    if each.path in sorting.puts and not self._is_hidden_without_layer(each, sorting):
                        pending.adopt(each.path, each.wanted, sorting.get_path(each.path))
                sorting.clear_layer()
                kept, count = self._build_kept(layer, sorting, origin, started_ns)
        except OSError as error:
            raise StateError(f"What the command left can't be read: {error.strerror}: {error.filename!r}.") from error
        pending.note_seen({each.path: each.wanted for each in left})
        done = self._record_effects(left)
        self._keep_layer(layer, kept, tuple(sorting.tops))
        self._drop_replaced(sorting)
        effects = _build_effects(origin, left, done, count, tuple(sorting.describe_dropped()))
        self._emit(effects)
        return effects

    def _is_hidden_without_layer(self, left: PathEffect, sorting: LayerSorting) -> bool:
        """True if the project holds what the command left, but the layer's directory would hide it."""
        with suppress(PathRefused):
            return sorting.is_closed(left.path) and self._tree.read_disk_state(left.path) == left.wanted
        return False

    def _keep_layer(self, layer: CommandLayer, kept: KeptLayers, touched: tuple[str, ...]) -> None:
        before = self._layers.kept
        if kept != before:
            self._layers.write_record(kept)
        is_kept = layer.id in kept.layers
        self._layers.close(layer.id, keep=is_kept)
        if not is_kept:
            return
        self._layers.squash()
        self._record_kept(prune_kept(self._tree, touched))
        if before.layers or self._layers.kept.layers:
            self._emit(build_layers_changed(self._tree))

    def _record_kept(self, kept: KeptLayers) -> None:
        """Write the record, and close layers that it no longer names."""
        if not kept.tops and not self._layers.open_layers:
            kept = replace(kept, layers=())
        if kept != self._layers.kept:
            self._layers.switch_to(kept)

    def _drop_replaced(self, sorting: LayerSorting) -> None:
        """Drop what was kept of directories that are gone: their modes, and everything below one that became a file."""
        kept = self._layers.kept
        is_below = AnyAncestor(sorting.replaced.__contains__)
        dropped = {
            path
            for path, top in kept.tops.items()
            if (top.kind == "directory" and path in sorting.gone) or path in sorting.replaced or is_below(path)
        }
        if not dropped:
            return
        tops = {path: top for path, top in kept.tops.items() if path not in dropped}
        self._layers.unshare()
        for layer in self._layers.list_uppers():
            for path in dropped:
                if kept.tops[path].kind != "directory":
                    remove_path(get_place(layer, path))
                prune_directories(layer, path)
        self._record_kept(replace(self._layers.kept, tops=tops))
        self._emit(build_layers_changed(self._tree))

    # reviewed files

    def _collect_effects(
        self, layer: CommandLayer, sorting: LayerSorting, origin: Origin, started_ns: int
    ) -> list[PathEffect]:
        """Collect the effects on reviewed paths, deletions first."""
        states: dict[str, FileState] = {path: self._read_state(sorting, found) for path, found in sorting.puts.items()}
        wanted = dict.fromkeys(sorting.deletes, ABSENT) | states
        deletions_first = sorted(wanted, key=lambda path: (wanted[path].kind != "absent", path))
        found = []
        for path in deletions_first:
            then, doubt = self._read_previous(path, layer, sorting, started_ns)
            found.append(PathEffect(path=path, then=then, wanted=wanted[path], origin=origin, doubt=doubt))
        found = [each for each in found if each.wanted != each.then]
        renames = {new: self._proposals.find_original_path(old) for new, old in _find_renames(found).items()}
        return [replace(each, renamed_from=renames.get(each.path, "")) for each in found]

    def _read_state(self, sorting: LayerSorting, found: LayerEntry) -> FileState:
        place = sorting.get_path(found.path)
        with open_parent(os.fsencode(place)) as (directory, name):
            if found.kind == "file" and found.mode & 0o7400 != 0o400:
                place.chmod(found.mode & 0o777 | 0o400)
            state, data = read_state_at(directory, name, found.path)
        if found.kind == "file":
            state = replace(state, mode=found.mode & PERMISSION_BITS)
            place.chmod(state.mode)
        return self._contents.store(state, data)

    def _read_previous(
        self, path: str, layer: CommandLayer, sorting: LayerSorting, started_ns: int
    ) -> tuple[FileState, str]:
        """Return the state that the command found at a path, and why that is uncertain ("" = it is not)."""
        if path in layer.pending_states:
            return layer.pending_states[path], ""
        if path in sorting.replaced:
            return ABSENT, ""
        try:
            then = self._tree.read_disk_state(path) if path in sorting.unhidden else self._tree.read_state_below(path)
        except PathRefused as error:
            return ABSENT, error.message
        return then, CHANGED_DURING_COMMAND if self._is_newer(path, started_ns) else ""

    def _is_newer(self, path: str, started_ns: int) -> bool:
        """True if the workspace's own file changed after the command began (`started_ns`, ns since 1970)."""
        if self._tree.stack.find(path) is not None:
            return False
        with suppress(OSError), self._workspace.open_parent(path) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_ctime_ns >= started_ns
        return False

    def _record_effects(self, left: list[PathEffect]) -> dict[str, Change | None]:
        """Record each effect; map its path to the pending change, or to None where nothing is pending."""
        done: dict[str, Change | None] = {}
        for each in left:
            try:
                done[each.path] = self._proposals.record_effect(each)
            except StateError:
                raise
            except AgentTuiError:
                done[each.path] = None
            if each.wanted.kind == "absent" and done[each.path] is None:
                self._tree.forget(each.path)
        return done

    # what stays in the layer

    def _build_kept(
        self, layer: CommandLayer, sorting: LayerSorting, origin: Origin, started_ns: int
    ) -> tuple[KeptLayers, int]:
        """Return the record with this layer in it, and the number of files that the layer keeps."""
        kept = self._layers.kept
        gone = {path: mode for path, mode in kept.gone.items() if path not in sorting.returned} | sorting.gone
        tops = {
            path: replace(top, origin=origin, since=started_ns)
            for path, top in sorting.tops.items()
            if os.path.lexists(sorting.get_path(path))
        }
        if not tops:
            return replace(kept, gone=gone), 0
        entries = scan_layer(layer.upper).entries
        # What gives way to a directory that is decided by itself is a reviewed file: its deletion is a change.
        replacing = {path for path, top in tops.items() if top.kind == "directory"}
        paths = [each.path for each in entries if each.path not in replacing]
        paths += [each for path, top in tops.items() if top.kind == "git" for each in self._list_git_bases(path)]
        bases = {path: base for path in paths if (base := self._read_base(path, started_ns)) is not None}
        layers, merged = (*kept.layers, layer.id), _merge_tops(kept.tops, tops)
        found = replace(kept, layers=layers, tops=merged, bases=bases | kept.bases, gone=gone)
        return found, sum(each.kind != "directory" for each in entries)

    def _list_git_bases(self, git: str) -> list[str]:
        """List the files of a repository that say what is committed to: a layer counts only while they are the same."""
        head = b""
        with suppress(PathRefused):
            head = self._workspace.read_bytes(f"{git}/HEAD")
        named, _, name = head.partition(b"ref: ")
        reference = [f"{git}/{from_os_name(name.strip())}"] if not named and name.startswith(b"refs/") else []
        return [f"{git}/HEAD", f"{git}/index", *reference]

    def _read_base(self, path: str, started_ns: int) -> FileState | None:
        """Return the workspace's state where the layer replaces it; of git's index its bytes are stored too. None: it
        has none, or what the command saw is not known, because it changed while that ran."""
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


def _merge_tops(old: Mapping[str, KeptTop], new: Mapping[str, KeptTop]) -> dict[str, KeptTop]:
    """Merge kept tops so that none lies in another; an older one keeps its time."""
    found = dict(old)
    for path, top in new.items():
        known = found.get(path, top)
        found[path] = replace(top, since=min(top.since, known.since), insisted=known.insisted)
    return drop_covered(found)


def _find_renames(left: list[PathEffect]) -> dict[str, str]:
    """Map each created path to the removed one whose content and mode it alone shares."""
    removed, created = defaultdict[FileState, list[str]](list), defaultdict[FileState, list[str]](list)
    for each in left:
        if each.wanted.kind == "absent" and each.then.kind == "file" and each.then.size:
            removed[each.then].append(each.path)
        elif each.then.kind == "absent" and each.wanted.kind == "file" and each.wanted.size:
            created[each.wanted].append(each.path)
    pairs = ((created[key], removed[key]) for key in created.keys() & removed.keys())
    return {to[0]: from_[0] for to, from_ in pairs if len(to) == len(from_) == 1}


def _build_effects(
    origin: Origin, left: list[PathEffect], done: Mapping[str, Change | None], generated: int, notes: tuple[str, ...]
) -> EffectsRecorded:

    paths = defaultdict[str, list[str]](list)
    for each in left:
        is_new = each.then.kind == "absent"
        paths["deleted" if each.wanted.kind == "absent" else "created" if is_new else "edited"].append(each.path)
    resolved = [path for path, change in done.items() if change is None]
    if resolved:
        notes = (*notes, f"{', '.join(resolved[:5])}: back to what the project has.")
    return EffectsRecorded(
        call=origin.call,
        command=origin.command,
        created=tuple(paths["created"]),
        edited=tuple(paths["edited"]),
        deleted=tuple(paths["deleted"]),
        generated=generated,
        notes=notes,
    )
