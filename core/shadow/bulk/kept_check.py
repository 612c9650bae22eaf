"""The check of the kept layers before a command: whose state of a place in bulk is newer, and what in it is stale.

Where the user changed what a layer holds, the user's state wins and that of the commands is set aside. Everything else
is said: what changed beside it, and what was made from a file that is no longer what it was.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, StateError
from core.filesystem.removal import remove_path
from core.protocol.events import AnyEvent, Notice
from core.protocol.review import FileState
from core.shadow.bulk.bulk_summary import build_layers_changed
from core.shadow.bulk.bulk_verdicts import BulkVerdicts
from core.shadow.bulk.project_changes import DiskComparison, TouchedPaths, describe_touched, find_unit, is_quiet
from core.shadow.bulk.stale_outputs import find_stale_outputs, names_dependencies
from core.shadow.content.paths import collect_directories
from core.shadow.layers.layer_files import fingerprint_entry
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.layer_store import KeptTop, select_bases
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_place
from core.shadow.layers.pending_layer import PendingLayer
from core.shadow.layers.prune import prune_directories
from core.workspace import ABSENT

_TOLD_BESIDE = {"generated"}  # other kinds are compared path by path
_NOT_WRITTEN = object()
_HELD_ANYWAY = {"large"}  # reviewed though without lines: a conflict, like that of a hunk


class KeptCheck(Struct, eq=False):
    """Compare the kept layers of one session with the project."""

    tree: MergedTree
    bulks: BulkVerdicts
    pending: PendingLayer
    emit: Callable[[AnyEvent], None]

    def run(self, pending_states: Mapping[str, FileState]) -> None:
        """Compare everything, while `pending_states` is what is pending. What is pending counts as new once something
        was set aside: the user's own outputs, which are seen now, were not made from it."""
        if not self.tree.layers.kept.tops:
            return
        self._mark_stale(
            path for path, state in self.pending.list_replaced(pending_states) if self._is_taken_back(path, state)
        )
        if self._follow_project():
            changes = self.tree.state.changes.items()
            self.pending.renew([path for path, change in changes if not (change.origin and change.origin.command)])

    def _follow_project(self) -> bool:
        """Set aside what is older than the user's, and note what else changed. Return True if something was set aside.
        While a command runs over the layers nothing is moved: then it is a conflict."""
        layers = self.tree.layers
        kept_layers = layers.kept
        now = time.time_ns()
        comparison = DiskComparison(
            os.fsencode(self.tree.workspace.root),
            [os.fsencode(upper) for upper in layers.list_uppers()],
            kept_layers.bases,
            collect_directories(kept_layers.bases),
        )
        aside: dict[str, KeptTop] = {}
        reasons: dict[str, str] = {}
        new_tops = dict[str, KeptTop]()
        for top, kept_top in kept_layers.tops.items():
            touched_paths = self._leave_out_accepted(comparison.find_touched(top, kept_top))
            if not touched_paths.held and not touched_paths.beside:
                continue
            units = self._group_newer(top, touched_paths)
            if units and (kept_top.insisted or kept_top.kind in _HELD_ANYWAY or layers.open_layers):
                new_tops[top] = self._mark_conflict(kept_top, units)
                continue
            aside |= dict.fromkeys(units, kept_top)
            reasons |= {unit: describe_touched(unit, paths) for unit, paths in units.items()}
            if top not in units:
                new_tops[top] = replace(
                    kept_top, since=now, stale=_describe_beside(top, kept_top, touched_paths) or kept_top.stale
                )
        self._update_tops(new_tops)
        for unit, kept_top in aside.items():
            self._set_aside(unit, kept_top, reasons[unit])
        return bool(aside)

    def _leave_out_accepted(self, touched_paths: TouchedPaths) -> TouchedPaths:
        """Return the paths that others touched: what was accepted is the user's, but no news."""
        written_states = {write.path: write.state for write in self.tree.state.writes}
        if not written_states or not (touched_paths.held or touched_paths.beside):
            return touched_paths
        above = collect_directories(written_states)

        def is_news(path: str) -> bool:
            with suppress(OSError, PathRefused):
                return path not in above and self.bulks.read_disk_state(path) != written_states.get(path, _NOT_WRITTEN)
            return True

        return TouchedPaths(list(filter(is_news, touched_paths.held)), list(filter(is_news, touched_paths.beside)))

    def _mark_conflict(self, kept_top: KeptTop, units: Mapping[str, Sequence[str]]) -> KeptTop:
        """Mark the bulk as in conflict; what the review would see only when it is accepted is said, too."""
        self.bulks.check_conflicts()
        if any(bulk.conflict for bulk in self.tree.state.bulks if bulk.root == kept_top.root):
            return kept_top
        return replace(kept_top, stale="; ".join(describe_touched(unit, paths) for unit, paths in units.items()))

    def _group_newer(self, top: str, touched_paths: TouchedPaths) -> dict[str, list[str]]:
        """Return the paths that really differ from what commands saw, by what is set aside because of them."""
        units: dict[str, list[str]] = {}
        for path in touched_paths.held:
            with suppress(OSError, PathRefused):
                if self._is_newer(path):
                    units.setdefault(find_unit(top, path), []).append(path)
        return {top: units[top]} if top in units else units

    def _is_newer(self, path: str) -> bool:
        """True if the user's state at a path is neither what commands saw nor what they left."""
        disk, base = self.bulks.read_disk_state(path), self.tree.layers.kept.bases.get(path)
        entry = self.tree.stack.find(path)
        if disk is None:
            return True
        if isinstance(entry, LayeredEntry) and not entry.is_directory and disk == fingerprint_entry(entry):
            return False
        if base is None:
            return disk != ABSENT or any(base_path.startswith(f"{path}/") for base_path in self.tree.layers.kept.bases)
        if disk == base or self.bulks.is_refreshed_index(path, base):
            return False
        return not (disk == ABSENT and self._is_packed(path, base.blob))

    def _is_packed(self, path: str, blob: str) -> bool:
        """True if a reference of git's that is no file any more still names the same object."""
        git, separator, inside = path.partition("/refs/")
        with suppress(PathRefused):
            lines = self.tree.workspace.read_bytes(f"{git}/packed-refs").splitlines() if separator else []
            ends = f" refs/{inside}".encode()
            return any(
                hashlib.sha256(line[: -len(ends)] + b"\n").hexdigest() == blob for line in lines if line.endswith(ends)
            )
        return False

    def _set_aside(self, unit: str, kept_top: KeptTop, reason: str) -> None:
        try:
            if is_quiet(unit):
                self._drop_unit(unit)
                return
            self.bulks.set_aside(unit, kept_top, reason)
        except AgentTuiError as problem:
            self.emit(Notice(level="warning", message=f"{reason}. {problem.message}", hint=problem.hint))
            return
        subject = "the state of git" if kept_top.kind == "git" else "what"
        self.emit(
            Notice(
                level="warning",
                message=f"{reason}: {subject} that commands had left there was set aside, and yours is what they see.",
                hint="`/undo` brings it back.",
            )
        )

    def _drop_unit(self, path: str) -> None:
        """Drop a cache from the kept layers: tools fill it by themselves."""
        layers = self.tree.layers
        layers.unshare()
        try:
            for layer in layers.list_uppers():
                remove_path(get_place(layer, path))
                prune_directories(layer, path)
        except OSError as error:
            raise StateError(f"{path} can't be dropped from the kept layers: {error.strerror}.") from error
        kept_layers = layers.kept
        tops = {top_path: top for top_path, top in kept_layers.tops.items() if top_path != path}
        dropped_bases = select_bases({path: KeptTop(root=path)}, kept_layers.bases)
        bases = {base_path: base for base_path, base in kept_layers.bases.items() if base_path not in dropped_bases}
        layers.switch_to(replace(kept_layers, layers=kept_layers.layers if tops else (), tops=tops, bases=bases))
        self.emit(build_layers_changed(self.tree))

    # what is stale

    def _mark_stale(self, paths: Iterable[str]) -> None:
        """Note what was made from files that are no longer what commands saw."""
        tops = self.tree.layers.kept.tops
        self._update_tops(
            {
                top: replace(tops[top], stale=f"made from {path} as it was before it was taken back")
                for path in sorted(paths)
                for top in find_stale_outputs(path, tops)
            }
        )

    def _is_taken_back(self, path: str, state: FileState) -> bool:
        """True if a file that names dependencies is not as commands saw it, and the agent did not change it."""
        if not names_dependencies(path):
            return False
        if path in self.tree.state.changes:
            return any(
                verdict.path == path and verdict.verdict == "reject" and verdict.pending_before == state
                for verdict in self.tree.state.verdicts
            )
        with suppress(PathRefused):
            return self.tree.read_disk_state(path) != state
        return True

    def _update_tops(self, changed_tops: Mapping[str, KeptTop]) -> None:
        layers = self.tree.layers
        kept_layers = layers.kept
        if all(kept_layers.tops.get(path) == top for path, top in changed_tops.items()):
            return
        is_told = any(kept_layers.tops[path].stale != top.stale for path, top in changed_tops.items())
        layers.write_record(replace(kept_layers, tops=kept_layers.tops | dict(changed_tops)))
        if is_told:
            self.emit(build_layers_changed(self.tree))


def _describe_beside(top: str, kept_top: KeptTop, touched_paths: TouchedPaths) -> str:
    if kept_top.kind not in _TOLD_BESIDE or is_quiet(top):
        return ""
    paths = [path for path in touched_paths.beside if find_unit(top, path) == top]
    return f"{', '.join(sorted(paths)[:3])} changed in the project since" if paths else ""
