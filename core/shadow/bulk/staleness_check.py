"""Checks the retained layers against the project before a command, so that no layer hides a newer file of the user.

Times are compared first: a path below a top counts as touched when its status has changed since the command that
created the top began (`RetainedTop.since`). Only touched paths are compared by content. The user's state of a top wins
as a whole, so that no command sees a mixture of two states: the command's files are set aside like a rejected bulk, and
an undo restores them. The check reports other changes near a top, and outputs of dependency manifests (such as
`node_modules`) that are stale because the manifest has changed since.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, StateError
from core.filesystem.overlay_support import is_opaque
from core.filesystem.removal import remove_path
from core.patterns import compile_lazily
from core.protocol.events import AnyEvent, Notice
from core.protocol.paths import list_parents
from core.protocol.review import CACHES, FileState
from core.shadow.bulk.bulk_summary import build_layers_changed
from core.shadow.bulk.bulk_verdicts import BulkVerdicts
from core.shadow.content.paths import collect_directories
from core.shadow.layers.layer_files import fingerprint_entry
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.layer_store import RetainedTop, select_bases
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_layer_path
from core.shadow.layers.pending_layer import PendingLayer
from core.shadow.layers.prune import prune_directories
from core.workspace import ABSENT
from core.workspace.file_names import from_os_name, to_os_name

MAX_NEIGHBOURS = 1_000  # entries on disk, in addition to those of layers, that are compared before a command
TOOL_CACHES = CACHES | {".cache", ".vite", ".vite-temp", ".vitest", ".tmp"}
_GIT_IGNORED = compile_lazily(
    r"(?:objects|logs|modules)(?:/|\Z)|(?:ORIG_HEAD|FETCH_HEAD|AUTO_MERGE|COMMIT_EDITMSG|TAG_EDITMSG|gc\.\w+)\Z|.*\.lock\Z"
)
_PYTHON = (".venv", "venv", "env", ".tox", ".nox", "__pypackages__")
_NODE = ("node_modules", "bower_components", ".yarn", ".pnp.cjs")
_JVM = ("build", "target", "out", ".gradle")
OUTPUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "bower.json"), _NODE),
    **dict.fromkeys(("pnpm-lock.yaml", "pnpm-workspace.yaml", "bun.lock", "bun.lockb", ".yarnrc.yml"), _NODE),
    **dict.fromkeys(("*requirements*.txt", "*requirements*.in", "constraints*.txt", "pyproject.toml"), _PYTHON),
    **dict.fromkeys(
        ("setup.py", "setup.cfg", "Pipfile", "Pipfile.lock", "poetry.lock", "pdm.lock", "uv.lock"), _PYTHON
    ),
    **dict.fromkeys(("environment*.yml", "environment*.yaml"), _PYTHON),
    **dict.fromkeys(("Cargo.toml", "Cargo.lock"), ("target", "vendor")),
    **dict.fromkeys(("go.mod", "go.sum", "go.work"), ("vendor", "bin")),
    **dict.fromkeys(("Gemfile", "Gemfile.lock", "*.gemspec"), ("vendor", ".bundle")),
    **dict.fromkeys(("composer.json", "composer.lock"), ("vendor",)),
    **dict.fromkeys(("pom.xml", "build.gradle", "build.gradle.kts", "gradle.lockfile", "build.sbt"), _JVM),
    **dict.fromkeys(("mix.exs", "mix.lock", "rebar.config"), ("deps", "_build")),
    **dict.fromkeys(("pubspec.yaml", "pubspec.lock"), (".dart_tool", "build")),
    **dict.fromkeys(("*.csproj", "*.fsproj", "packages.config", "packages.lock.json"), ("obj", "bin", "packages")),
    **dict.fromkeys(("Package.swift", "Package.resolved"), (".build",)),
    **dict.fromkeys(("Podfile", "Podfile.lock"), ("Pods",)),
    **dict.fromkeys(("deno.json", "deno.lock"), ("node_modules", "vendor")),
    **dict.fromkeys(("conanfile.txt", "conanfile.py", "vcpkg.json"), ("build", "vcpkg_installed")),
    **dict.fromkeys(("elm.json", "shard.yml", "dub.json"), ("elm-stuff", "lib", ".dub")),
    **dict.fromkeys(("stack.yaml", "*.cabal", "cabal.project"), (".stack-work", "dist-newstyle")),
}
_TOLD_BESIDE = {"generated"}  # other kinds are compared path by path
_NOT_WRITTEN = object()
_HELD_ANYWAY = {"large"}  # reviewed, though without lines: such a bulk is in conflict, like a hunk


class TouchedPaths(Struct):
    """The touched paths of one top: those `held` by layers (or hidden by them), and the `adjacent` others."""

    held: list[str] = field(default_factory=list)
    adjacent: list[str] = field(default_factory=list)


class _ComparedDirectory(NamedTuple):
    """A directory of the project to compare, and the layers' directories at its path; `hidden`: they hide its
    content."""

    path: str
    layered: list[bytes]
    hidden: bool


class DiskComparison(Struct, eq=False):
    """Compare the project at `root` with the retained layers `uppers` (topmost first) by times. `bases`: the files that
    layers replace; `base_directories`: their directories. `left`: the remaining number of other entries to compare."""

    root: bytes
    uppers: Sequence[bytes]
    bases: Mapping[str, FileState]
    base_directories: Collection[str]
    left: int = MAX_NEIGHBOURS

    def find_touched(self, top: str, retained_top: RetainedTop) -> TouchedPaths:
        """Return the paths at and below a top that were touched since `retained_top.since`."""
        touched_paths, is_git = TouchedPaths(), retained_top.kind == "git"
        layer_paths = [
            layer_path for upper in self.uppers if os.path.lexists(layer_path := upper + b"/" + to_os_name(top))
        ]
        waiting: deque[_ComparedDirectory] = deque()
        disk = self._read_status(top)
        if disk is None:
            self._record_missing(top, touched_paths)
        elif not stat.S_ISDIR(disk.st_mode):
            if disk.st_ctime_ns >= retained_top.since:
                touched_paths.held.append(top)
        else:
            waiting.append(_ComparedDirectory(top, layer_paths, any(map(_hides_directory, layer_paths))))
            if disk.st_ctime_ns >= retained_top.since and not is_git:
                (touched_paths.held if waiting[0].hidden else touched_paths.adjacent).append(top)
        while waiting and retained_top.kind != "directory":
            directory = waiting.popleft()
            if not is_git or not _GIT_IGNORED.match(directory.path[len(top) + 1 :]):
                waiting += self._compare_directory(directory, retained_top.since, touched_paths, names_only=is_git)
        if is_git:
            paths = {*touched_paths.held, *self._find_touched_bases(top, retained_top)}
            touched_paths = TouchedPaths([path for path in paths if not _GIT_IGNORED.match(path[len(top) + 1 :])])
        return touched_paths

    def _compare_directory(
        self, directory: _ComparedDirectory, timestamp: int, touched_paths: TouchedPaths, *, names_only: bool
    ) -> Iterator[_ComparedDirectory]:
        """Compare a directory of the project, and yield its subdirectories. `names_only`: a new or removed entry in it
        means nothing."""
        paths_by_name = _list_held(directory.layered)
        if not paths_by_name and (self.left <= 0 or directory.path.rpartition("/")[2] in TOOL_CACHES):
            return
        with suppress(OSError), os.scandir(self.root + b"/" + to_os_name(directory.path)) as entries:
            for entry in entries:
                layer_paths = paths_by_name.pop(entry.name, None)
                if layer_paths is None:
                    if self.left <= 0:
                        continue
                    self.left -= 1
                is_directory = entry.is_dir(follow_symlinks=False)
                is_newer = entry.stat(follow_symlinks=False).st_ctime_ns >= timestamp
                if not is_directory and not is_newer:
                    continue
                path = f"{directory.path}/{from_os_name(entry.name)}"
                hides = directory.hidden or (is_directory and any(map(_hides_directory, layer_paths or ())))
                if is_newer and not (is_directory and names_only):
                    is_held = hides or (layer_paths is not None and not is_directory) or path in self.bases
                    (touched_paths.held if is_held else touched_paths.adjacent).append(path)
                if is_directory:
                    yield _ComparedDirectory(path, layer_paths or [], hides)
        for name in paths_by_name:
            self._record_missing(f"{directory.path}/{from_os_name(name)}", touched_paths)

    def _record_missing(self, path: str, touched_paths: TouchedPaths) -> None:
        if path in self.bases or path in self.base_directories:
            touched_paths.held.append(path)

    def _find_touched_bases(self, top: str, retained_top: RetainedTop) -> Iterator[str]:
        """Yield the touched base files of git's state that no layer has: those that determine the current commit."""
        for path in self.bases:
            if path.startswith(f"{top}/"):
                disk = self._read_status(path)
                if disk is None or disk.st_ctime_ns >= retained_top.since:
                    yield path

    def _read_status(self, path: str) -> os.stat_result | None:
        with suppress(OSError):
            return os.lstat(self.root + b"/" + to_os_name(path))
        return None


def _list_held(directories: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """Return the entries of a directory in the layers, by name, topmost first; `directories`: its path in every
    layer."""
    paths_by_name: dict[bytes, list[bytes]] = {}
    for directory in directories:
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                paths_by_name.setdefault(entry.name, []).append(entry.path)
    return paths_by_name


def _hides_directory(path: bytes) -> bool:
    """True if a layer's entry hides a directory of the user."""
    stats = os.lstat(path)
    return not stat.S_ISDIR(stats.st_mode) or is_opaque(path)


def find_unit(top: str, path: str) -> str:
    """Return the path to set aside because of a touched path: the tool cache that contains it, or the whole top."""
    for directory in (*list_parents(path), path):
        if len(directory) > len(top) and directory.rpartition("/")[2] in TOOL_CACHES:
            return directory
    return top


def is_tool_cache(unit: str) -> bool:
    """True for caches that tools validate and refill by themselves: these need no report."""
    return unit.rpartition("/")[2] in TOOL_CACHES


def describe_touched(unit: str, paths: Sequence[str]) -> str:
    """Describe which files of the user are newer, for the user and the model."""
    names = ", ".join(sorted(paths)[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")
    if names == unit:
        return f"{unit} was changed in the project after the command that wrote it"
    return f"{unit} was changed in the project after the command that wrote it ({names})"


def is_dependency_manifest(path: str) -> bool:
    """True if a file determines what is installed or built."""
    return bool(_find_outputs(path))


def _find_outputs(path: str) -> tuple[str, ...]:
    name = path.rpartition("/")[2]
    return next((names for pattern, names in OUTPUTS.items() if fnmatchcase(name, pattern)), ())


def find_stale_outputs(path: str, tops: Iterable[str]) -> list[str]:
    """Return the tops that are outputs of a manifest: next to it, above it or below its directory."""
    names, parent = _find_outputs(path), path.rpartition("/")[0]
    above = {"", parent, *list_parents(path)}
    stale = []
    for top in tops:
        parts = top.split("/")
        index = next((number for number, part in enumerate(parts) if part in names), None)
        if index is None:
            continue
        directory = "/".join(parts[:index])
        if directory in above or not parent or directory.startswith(f"{parent}/"):
            stale.append(top)
    return stale


class StalenessCheck(Struct, eq=False):
    """Compare the retained layers of one session with the project."""

    tree: MergedTree
    bulks: BulkVerdicts
    pending: PendingLayer
    emit: Callable[[AnyEvent], None]

    def run(self, pending_states: Mapping[str, FileState]) -> None:
        """Compare everything, with `pending_states` as the pending changes. Once something was set aside, pending
        changes count as new: the user's own outputs, which are visible now, were not built from them."""
        if not self.tree.layers.retained.tops:
            return
        self._mark_stale(
            path for path, state in self.pending.list_replaced(pending_states) if self._is_reverted(path, state)
        )
        if self._follow_project():
            changes = self.tree.state.changes.items()
            self.pending.renew([path for path, change in changes if not (change.origin and change.origin.command)])

    def _follow_project(self) -> bool:
        """Set aside what is older than the user's state, and note other changes. Return True if something was set
        aside. While a command runs over the layers, nothing is moved: the bulk is in conflict instead."""
        layers = self.tree.layers
        retained_layers = layers.retained
        now = time.time_ns()
        comparison = DiskComparison(
            os.fsencode(self.tree.workspace.root),
            [os.fsencode(upper) for upper in layers.list_uppers()],
            retained_layers.bases,
            collect_directories(retained_layers.bases),
        )
        aside: dict[str, RetainedTop] = {}
        reasons: dict[str, str] = {}
        new_tops = dict[str, RetainedTop]()
        for top, retained_top in retained_layers.tops.items():
            touched_paths = self._leave_out_accepted(comparison.find_touched(top, retained_top))
            if not touched_paths.held and not touched_paths.adjacent:
                continue
            units = self._group_newer(top, touched_paths)
            if units and (retained_top.insisted or retained_top.kind in _HELD_ANYWAY or layers.open_layers):
                new_tops[top] = self._mark_conflict(retained_top, units)
                continue
            aside |= dict.fromkeys(units, retained_top)
            reasons |= {unit: describe_touched(unit, paths) for unit, paths in units.items()}
            if top not in units:
                new_tops[top] = replace(
                    retained_top,
                    since=now,
                    stale=_describe_adjacent_changes(top, retained_top, touched_paths) or retained_top.stale,
                )
        self._update_tops(new_tops)
        for unit, retained_top in aside.items():
            self._set_aside(unit, retained_top, reasons[unit])
        return bool(aside)

    def _leave_out_accepted(self, touched_paths: TouchedPaths) -> TouchedPaths:
        """Return the touched paths without those that the review itself wrote."""
        written_states = {write.path: write.state for write in self.tree.state.writes}
        if not written_states or not (touched_paths.held or touched_paths.adjacent):
            return touched_paths
        above = collect_directories(written_states)

        def is_changed_by_user(path: str) -> bool:
            with suppress(OSError, PathRefused):
                return path not in above and self.bulks.read_disk_state(path) != written_states.get(path, _NOT_WRITTEN)
            return True

        return TouchedPaths(
            list(filter(is_changed_by_user, touched_paths.held)),
            list(filter(is_changed_by_user, touched_paths.adjacent)),
        )

    def _mark_conflict(self, retained_top: RetainedTop, units: Mapping[str, Sequence[str]]) -> RetainedTop:
        """Mark the bulk as in conflict, and report what the review would otherwise see only at its acceptance."""
        self.bulks.check_conflicts()
        if any(bulk.conflict for bulk in self.tree.state.bulks if bulk.root == retained_top.root):
            return retained_top
        return replace(retained_top, stale="; ".join(describe_touched(unit, paths) for unit, paths in units.items()))

    def _group_newer(self, top: str, touched_paths: TouchedPaths) -> dict[str, list[str]]:
        """Group the paths whose content differs from what commands saw, by the unit to set aside."""
        units: dict[str, list[str]] = {}
        for path in touched_paths.held:
            with suppress(OSError, PathRefused):
                if self._is_newer(path):
                    units.setdefault(find_unit(top, path), []).append(path)
        return {top: units[top]} if top in units else units

    def _is_newer(self, path: str) -> bool:
        """True if the user's state at a path is neither the one that commands saw nor the one that they left."""
        disk, base = self.bulks.read_disk_state(path), self.tree.layers.retained.bases.get(path)
        entry = self.tree.stack.find(path)
        if disk is None:
            return True
        if isinstance(entry, LayeredEntry) and not entry.is_directory and disk == fingerprint_entry(entry):
            return False
        if base is None:
            return disk != ABSENT or any(
                base_path.startswith(f"{path}/") for base_path in self.tree.layers.retained.bases
            )
        if disk == base or self.bulks.is_refreshed_index(path, base):
            return False
        return not (disk == ABSENT and self._is_packed(path, base.blob))

    def _is_packed(self, path: str, blob: str) -> bool:
        """True if a git reference without a loose file is packed and still names the same object."""
        git, separator, inside = path.partition("/refs/")
        with suppress(PathRefused):
            lines = self.tree.workspace.read_bytes(f"{git}/packed-refs").splitlines() if separator else []
            ends = f" refs/{inside}".encode()
            return any(
                hashlib.sha256(line[: -len(ends)] + b"\n").hexdigest() == blob for line in lines if line.endswith(ends)
            )
        return False

    def _set_aside(self, unit: str, retained_top: RetainedTop, reason: str) -> None:
        try:
            if is_tool_cache(unit):
                self._drop_unit(unit)
                return
            self.bulks.set_aside(unit, retained_top, reason)
        except AgentTuiError as problem:
            self.emit(Notice(level="warning", message=f"{reason}. {problem.message}", hint=problem.hint))
            return
        subject = "the state of git" if retained_top.kind == "git" else "what"
        self.emit(
            Notice(
                level="warning",
                message=f"{reason}: {subject} that commands had left there was moved away, and they see yours now.",
                hint="`/undo` brings it back.",
            )
        )

    def _drop_unit(self, path: str) -> None:
        """Drop a cache from the retained layers, as tools refill it by themselves."""
        layers = self.tree.layers
        layers.unshare()
        try:
            for layer in layers.list_uppers():
                remove_path(get_layer_path(layer, path))
                prune_directories(layer, path)
        except OSError as error:
            raise StateError(f"{path} can't be dropped from the stored layers: {error.strerror}.") from error
        retained_layers = layers.retained
        tops = {top_path: top for top_path, top in retained_layers.tops.items() if top_path != path}
        dropped_bases = select_bases({path: RetainedTop(root=path)}, retained_layers.bases)
        bases = {base_path: base for base_path, base in retained_layers.bases.items() if base_path not in dropped_bases}
        layers.switch_to(
            replace(retained_layers, layers=retained_layers.layers if tops else (), tops=tops, bases=bases)
        )
        self.emit(build_layers_changed(self.tree))

    # stale outputs

    def _mark_stale(self, paths: Iterable[str]) -> None:
        """Mark the outputs of manifests that are no longer as commands saw them."""
        tops = self.tree.layers.retained.tops
        self._update_tops(
            {
                top: replace(tops[top], stale=f"made from {path} as it was before that was undone")
                for path in sorted(paths)
                for top in find_stale_outputs(path, tops)
            }
        )

    def _is_reverted(self, path: str, state: FileState) -> bool:
        """True if a manifest is not as commands saw it, and the agent did not change it."""
        if not is_dependency_manifest(path):
            return False
        if path in self.tree.state.changes:
            return any(
                verdict.path == path and verdict.verdict == "reject" and verdict.pending_before == state
                for verdict in self.tree.state.verdicts
            )
        with suppress(PathRefused):
            return self.tree.read_disk_state(path) != state
        return True

    def _update_tops(self, changed_tops: Mapping[str, RetainedTop]) -> None:
        layers = self.tree.layers
        retained_layers = layers.retained
        if all(retained_layers.tops.get(path) == top for path, top in changed_tops.items()):
            return
        is_reported = any(retained_layers.tops[path].stale != top.stale for path, top in changed_tops.items())
        layers.write_record(replace(retained_layers, tops=retained_layers.tops | dict(changed_tops)))
        if is_reported:
            self.emit(build_layers_changed(self.tree))


def _describe_adjacent_changes(top: str, retained_top: RetainedTop, touched_paths: TouchedPaths) -> str:
    if retained_top.kind not in _TOLD_BESIDE or is_tool_cache(top):
        return ""
    paths = [path for path in touched_paths.adjacent if find_unit(top, path) == top]
    return f"{', '.join(sorted(paths)[:3])} changed in the project since" if paths else ""
