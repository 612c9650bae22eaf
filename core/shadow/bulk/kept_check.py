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
from core.shadow.layers.layer_files import fingerprint_entry
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.layer_store import KeptTop, select_bases
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_place
from core.shadow.layers.pending_layer import PendingLayer
from core.shadow.layers.prune import prune_directories
from core.shadow.paths import collect_directories
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

    def run(self, shown: Mapping[str, FileState]) -> None:
        """Compare everything, while `shown` is what is pending. What is pending counts as new once something was set
        aside: the user's own outputs, which are seen now, were not made from it."""
        if not self.tree.layers.kept.tops:
            return
        self._mark_stale(path for path, seen in self.pending.list_replaced(shown) if self._is_taken_back(path, seen))
        if self._follow_project():
            changes = self.tree.state.changes.items()
            self.pending.renew([path for path, each in changes if not (each.origin and each.origin.command)])

    def _follow_project(self) -> bool:
        """Set aside what is older than the user's, and note what else changed. Return True if something was set aside.
        While a command runs over the layers nothing is moved: then it is a conflict."""
        layers = self.tree.layers
        kept = layers.kept
        now = time.time_ns()
        comparison = DiskComparison(
            os.fsencode(self.tree.workspace.root),
            [os.fsencode(each) for each in layers.list_uppers()],
            kept.bases,
            collect_directories(kept.bases),
        )
        aside: dict[str, KeptTop] = {}
        reasons: dict[str, str] = {}
        renewed = dict[str, KeptTop]()
        for top, known in kept.tops.items():
            touched = self._leave_out_accepted(comparison.find_touched(top, known))
            if not touched.held and not touched.beside:
                continue
            units = self._group_newer(top, touched)
            if units and (known.insisted or known.kind in _HELD_ANYWAY or layers.open_layers):
                renewed[top] = self._mark_conflict(known, units)
                continue
            aside |= dict.fromkeys(units, known)
            reasons |= {unit: describe_touched(unit, paths) for unit, paths in units.items()}
            if top not in units:
                renewed[top] = replace(known, since=now, stale=_describe_beside(top, known, touched) or known.stale)
        self._update_tops(renewed)
        for unit, known in aside.items():
            self._set_aside(unit, known, reasons[unit])
        return bool(aside)

    def _leave_out_accepted(self, touched: TouchedPaths) -> TouchedPaths:
        """Return the paths that others touched: what was accepted is the user's, but no news."""
        written = {each.path: each.state for each in self.tree.state.writes}
        if not written or not (touched.held or touched.beside):
            return touched
        above = collect_directories(written)

        def is_news(path: str) -> bool:
            with suppress(OSError, PathRefused):
                return path not in above and self.bulks.read_disk_state(path) != written.get(path, _NOT_WRITTEN)
            return True

        return TouchedPaths(list(filter(is_news, touched.held)), list(filter(is_news, touched.beside)))

    def _mark_conflict(self, known: KeptTop, units: Mapping[str, Sequence[str]]) -> KeptTop:
        """Mark the bulk as in conflict; what the review would see only when it is accepted is said, too."""
        self.bulks.check_conflicts()
        if any(each.conflict for each in self.tree.state.bulks if each.root == known.root):
            return known
        return replace(known, stale="; ".join(describe_touched(unit, paths) for unit, paths in units.items()))

    def _group_newer(self, top: str, touched: TouchedPaths) -> dict[str, list[str]]:
        """Return the paths that really differ from what commands saw, by what is set aside because of them."""
        units: dict[str, list[str]] = {}
        for path in touched.held:
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
            return disk != ABSENT or any(each.startswith(f"{path}/") for each in self.tree.layers.kept.bases)
        if disk == base or self.bulks.is_refreshed_index(path, base):
            return False
        return not (disk == ABSENT and self._is_packed(path, base.blob))

    def _is_packed(self, path: str, blob: str) -> bool:
        """True if a reference of git's that is no file any more still names the same object."""
        git, found, inside = path.partition("/refs/")
        with suppress(PathRefused):
            lines = self.tree.workspace.read_bytes(f"{git}/packed-refs").splitlines() if found else []
            ends = f" refs/{inside}".encode()
            return any(
                hashlib.sha256(line[: -len(ends)] + b"\n").hexdigest() == blob for line in lines if line.endswith(ends)
            )
        return False

    def _set_aside(self, unit: str, known: KeptTop, reason: str) -> None:
        try:
            if is_quiet(unit):
                self._drop_unit(unit)
                return
            self.bulks.set_aside(unit, known, reason)
        except AgentTuiError as problem:
            self.emit(Notice(level="warning", message=f"{reason}. {problem.message}", hint=problem.hint))
            return
        what = "the state of git" if known.kind == "git" else "what"
        self.emit(
            Notice(
                level="warning",
                message=f"{reason}: {what} that commands had left there was set aside, and yours is what they see.",
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
        kept = layers.kept
        tops = {each: top for each, top in kept.tops.items() if each != path}
        gone = select_bases({path: KeptTop(root=path)}, kept.bases)
        bases = {each: base for each, base in kept.bases.items() if each not in gone}
        layers.switch_to(replace(kept, layers=kept.layers if tops else (), tops=tops, bases=bases))
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

    def _is_taken_back(self, path: str, seen: FileState) -> bool:
        """True if a file that names dependencies is not as commands saw it, and the agent did not change it."""
        if not names_dependencies(path):
            return False
        if path in self.tree.state.changes:
            return any(
                each.path == path and each.verdict == "reject" and each.pending_before == seen
                for each in self.tree.state.verdicts
            )
        with suppress(PathRefused):
            return self.tree.read_disk_state(path) != seen
        return True

    def _update_tops(self, changed: Mapping[str, KeptTop]) -> None:
        layers = self.tree.layers
        kept = layers.kept
        if all(kept.tops.get(path) == top for path, top in changed.items()):
            return
        is_told = any(kept.tops[path].stale != top.stale for path, top in changed.items())
        layers.write_record(replace(kept, tops=kept.tops | dict(changed)))
        if is_told:
            self.emit(build_layers_changed(self.tree))


def _describe_beside(top: str, known: KeptTop, touched: TouchedPaths) -> str:
    if known.kind not in _TOLD_BESIDE or is_quiet(top):
        return ""
    paths = [each for each in touched.beside if find_unit(top, each) == top]
    return f"{', '.join(sorted(paths)[:3])} changed in the project since" if paths else ""
