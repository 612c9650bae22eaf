"""From a command's layer to the review: reviewed files become changes, the rest a kept layer, and nothing is lost
between the two."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, StateError
from core.protocol.events import AnyEvent, EffectsRecorded
from core.protocol.review import Change, FileState, Origin
from core.shadow.contents import Contents
from core.shadow.disk import Within
from core.shadow.editing import Editing, Left
from core.shadow.layers import Kept, LayerDirs, Layers, Top
from core.shadow.path_classes import PathClasses
from core.shadow.pending import PendingLayer
from core.shadow.scan import Found, scan
from core.shadow.seen import Seen
from core.shadow.sorting import Sorting
from core.shadow.tally import layers_changed
from core.shadow.tidy import prune, tidied
from core.shadow.transfer import fingerprint
from core.workspace import ABSENT, Workspace
from core.workspace.names import to_os
from core.workspace.removing import remove
from core.workspace.tree import PERMISSIONS, state_at

NEW_SINCE = "the file in the project was changed while the command ran."


class Absorber:
    """Takes the layers of one session's commands in."""

    def __init__(
        self,
        workspace: Workspace,
        contents: Contents,
        layers: Layers,
        seen: Seen,
        editing: Editing,
        classes: Callable[[LayerDirs], PathClasses],
    ) -> None:
        self._workspace = workspace
        self._contents = contents
        self._layers = layers
        self._seen = seen
        self._editing = editing
        self._classes = classes

    def absorb(
        self, layer: LayerDirs, origin: Origin, started_ns: int, pending: PendingLayer, emit: Callable[[AnyEvent], None]
    ) -> EffectsRecorded:
        """See `Shadow.absorb`."""
        if not self._layers.is_open(layer.id):
            raise StateError(f"The layer {layer.id} is not open.", code="layer_closed")
        try:
            with self._seen.still():
                sorting = Sorting(layer.upper, scan(layer.upper), self._seen, self._classes(layer))
                sorting.sort()
                left = self._left(layer, sorting, origin, started_ns)
                for each in left:
                    if each.path in sorting.puts and not self._would_be_hidden(each, sorting):
                        pending.adopt(each.path, each.wanted, sorting.at(each.path))
                sorting.settle()
                kept, count = self._kept(layer, sorting, origin, started_ns)
        except OSError as error:
            raise StateError(f"What the command left can't be read: {error.strerror}: {error.filename!r}.") from error
        done = self._recorded(left)
        self._keep(layer, kept, tuple(sorting.tops), emit)
        self._drop(sorting, emit)
        effects = _effects(origin, left, done, count, tuple(sorting.notes()))
        emit(effects)
        return effects

    def _would_be_hidden(self, left: Left, sorting: Sorting) -> bool:
        """Whether what the project has again, so that it is not pending, only shows if the layer holds it."""
        try:
            return sorting.is_closed(left.path) and self._seen.disk_state(left.path) == left.wanted
        except PathRefused:
            return False

    def _keep(self, layer: LayerDirs, kept: Kept, touched: tuple[str, ...], emit: Callable[[AnyEvent], None]) -> None:
        before = self._layers.kept
        if kept != before:
            self._layers.record(kept)
        is_kept = layer.id in kept.layers
        self._layers.close(layer.id, keep=is_kept)
        if not is_kept:
            return
        self._layers.squash()
        self._record(tidied(self._layers, self._seen, touched))
        if before.layers or self._layers.kept.layers:
            emit(layers_changed(self._layers, self._seen))

    def _record(self, kept: Kept) -> None:
        """The new record; layers that nobody needs any more go."""
        before = self._layers.kept
        if not kept.tops and not self._layers.open:
            kept = replace(kept, layers=())
        if kept != before:
            self._layers.record(kept)
        for each in set(before.layers) - set(kept.layers):
            self._layers.close(each, keep=False)

    def _drop(self, sorting: Sorting, emit: Callable[[AnyEvent], None]) -> None:
        """What was kept of directories that are no more: their modes, and all below one that became a file."""
        kept = self._layers.kept
        is_below = Within(sorting.replaced.__contains__)
        dropped = {
            path
            for path, top in kept.tops.items()
            if (top.kind == "directory" and path in sorting.gone) or path in sorting.replaced or is_below(path)
        }
        if not dropped:
            return
        tops = {path: top for path, top in kept.tops.items() if path not in dropped}
        self._layers.own()
        for layer in self._layers.stack():
            for path in dropped:
                if kept.tops[path].kind != "directory":
                    remove(layer / os.fsdecode(to_os(path)))
                prune(layer, path)
        self._record(replace(self._layers.kept, tops=tops))
        emit(layers_changed(self._layers, self._seen))

    # reviewed files

    def _left(self, layer: LayerDirs, sorting: Sorting, origin: Origin, started_ns: int) -> list[Left]:
        states: dict[str, FileState] = {path: self._state(sorting, found) for path, found in sorting.puts.items()}
        wanted = dict.fromkeys(sorting.deletes, ABSENT) | states
        deletions_first = sorted(wanted, key=lambda path: (wanted[path].kind != "absent", path))
        found = []
        for path in deletions_first:
            then, doubt = self._then(path, layer, sorting, started_ns)
            found.append(Left(path=path, then=then, wanted=wanted[path], origin=origin, doubt=doubt))
        found = [each for each in found if each.wanted != each.then]
        renames = {new: self._editing.first_name(old) for new, old in _renames(found).items()}
        return [replace(each, renamed_from=renames.get(each.path, "")) for each in found]

    def _state(self, sorting: Sorting, found: Found) -> FileState:
        place = sorting.at(found.path)
        directory = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if found.kind == "file" and found.mode & 0o7400 != 0o400:
                place.chmod(found.mode & 0o777 | 0o400)
            state, data = state_at(directory, os.fsencode(place.name), found.path)
        finally:
            os.close(directory)
        if found.kind == "file":
            state = replace(state, mode=found.mode & PERMISSIONS)
            place.chmod(state.mode)
        return self._contents.keep(state, data)

    def _then(self, path: str, layer: LayerDirs, sorting: Sorting, started_ns: int) -> tuple[FileState, str]:
        """What the command found at a path, and why that is not sure."""
        if path in layer.seen:
            return layer.seen[path], ""
        if path in sorting.replaced:
            return ABSENT, ""
        try:
            then = self._seen.disk_state(path) if path in sorting.unhidden else self._seen.state_below(path)
        except PathRefused as error:
            return ABSENT, error.message
        return then, NEW_SINCE if self._is_newer(path, started_ns) else ""

    def _is_newer(self, path: str, started_ns: int) -> bool:
        """Whether the workspace's own file has changed since the command began."""
        if self._seen.stack and self._seen.stack.find(path) is not None:
            return False
        try:
            with self._workspace.directory(path) as (directory, name):
                return os.stat(name, dir_fd=directory, follow_symlinks=False).st_ctime_ns >= started_ns
        except OSError:
            return False

    def _recorded(self, left: list[Left]) -> dict[str, Change | None]:
        done: dict[str, Change | None] = {}
        for each in left:
            try:
                done[each.path] = self._editing.left(each)
            except StateError:
                raise
            except AgentTuiError:
                done[each.path] = None
            if each.wanted.kind == "absent" and done[each.path] is None:
                self._seen.forget(each.path)
        return done

    # what stays in the layer

    def _kept(self, layer: LayerDirs, sorting: Sorting, origin: Origin, started_ns: int) -> tuple[Kept, int]:
        """The record with this layer in it, and how many files it keeps. The layer's own marks are all of it."""
        kept = self._layers.kept
        gone = {path: mode for path, mode in kept.gone.items() if path not in sorting.returned} | sorting.gone
        tops = {
            path: replace(top, origin=origin, since=started_ns)
            for path, top in sorting.tops.items()
            if os.path.lexists(sorting.at(path))
        }
        if not tops:
            return replace(kept, gone=gone), 0
        entries = scan(layer.upper).entries
        # What gives way to a directory that is decided by itself is a reviewed file: its deletion is a change.
        replacing = {path for path, top in tops.items() if top.kind == "directory"}
        paths = [each.path for each in entries if each.path not in replacing]
        bases = {path: base for path in paths if (base := self._base(path)) is not None}
        found = replace(
            kept,
            layers=(*kept.layers, layer.id),
            tops=_joined(kept.tops, tops),
            bases=bases | kept.bases,
            gone=gone,
        )
        return found, sum(each.kind != "directory" for each in entries)

    def _base(self, path: str) -> FileState | None:
        """What the workspace has where the layer replaces it; of git's index the content too, see `Bulks`."""
        try:
            if path.endswith(".git/index"):
                return self._present(self._contents.keep(*self._workspace.state_of(path)))
            with self._workspace.directory(path) as (directory, name):
                return fingerprint(directory, name)
        except (OSError, PathRefused):
            return None

    def _present(self, state: FileState) -> FileState | None:
        return state if state.kind != "absent" else None


def _joined(old: Mapping[str, Top], new: Mapping[str, Top]) -> dict[str, Top]:
    """Tops of which none lies in another; an older one keeps its moment."""
    found = dict(old)
    for path, top in new.items():
        since = min(top.since, found[path].since) if path in found else top.since
        found[path] = replace(top, since=since)
    is_below = Within(found.__contains__)
    return {path: top for path, top in found.items() if not is_below(path)}


def _renames(left: list[Left]) -> dict[str, str]:
    """Which files were created with the content and mode of exactly one that was removed."""
    removed: dict[tuple[str, int], list[str]] = {}
    created: dict[tuple[str, int], list[str]] = {}
    for each in left:
        if each.wanted.kind == "absent" and each.then.kind == "file" and each.then.size:
            removed.setdefault((each.then.blob, each.then.mode), []).append(each.path)
        elif each.then.kind == "absent" and each.wanted.kind == "file" and each.wanted.size:
            created.setdefault((each.wanted.blob, each.wanted.mode), []).append(each.path)
    pairs = ((created[key], removed[key]) for key in created.keys() & removed.keys())
    return {to[0]: from_[0] for to, from_ in pairs if len(to) == len(from_) == 1}


def _effects(
    origin: Origin, left: list[Left], done: Mapping[str, Change | None], generated: int, notes: tuple[str, ...]
) -> EffectsRecorded:
    def paths(*operations: str) -> tuple[str, ...]:
        return tuple(each.path for each in left if _what(each) in operations)

    resolved = [path for path, change in done.items() if change is None]
    if resolved:
        notes = (*notes, f"{', '.join(resolved[:5])}: back to what the project has.")
    return EffectsRecorded(
        call=origin.call,
        command=origin.command,
        created=paths("create"),
        edited=paths("edit"),
        deleted=paths("delete"),
        generated=generated,
        notes=notes,
    )


def _what(left: Left) -> str:
    if left.wanted.kind == "absent":
        return "delete"
    return "create" if left.then.kind == "absent" else "edit"
