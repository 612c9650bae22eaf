"""A guard that keeps a bulk verdict from overwriting what the user has changed in the project since."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice

from msgspec import Struct

from core.errors import AgentTuiError, PathRefused, ReviewConflict
from core.git.index import is_same_index
from core.protocol.review import FileState
from core.shadow.bulk.layer_transfer import LayerTransfer, TransferStep
from core.shadow.content.blob_store import BlobStore
from core.shadow.content.paths import collect_directories, format_paths
from core.shadow.layers.layer_stack import LayerStack
from core.shadow.layers.layer_store import KeptTop
from core.shadow.layers.overlayfs import is_opaque
from core.workspace import Workspace
from core.workspace.file_names import to_os_name

MAX_NAMED = 3  # paths in a message
MAX_CHECKED = 20_000
GIT_BUSY = "git_busy"
Tops = Mapping[str, KeptTop]
Bases = Mapping[str, FileState]


class BulkGuard(Struct, eq=False):
    """Compare the project with what commands saw of it."""

    workspace: Workspace
    transfer: LayerTransfer
    blobs: BlobStore

    def refuse_conflicts(self, tops: Tops, bases: Bases, ops: list[TransferStep]) -> None:
        """Raise `ReviewConflict` unless the project holds what the command saw there."""
        if any(top.kind == "git" and self.transfer.get_kind(f"{path}/index.lock") for path, top in tops.items()):
            raise ReviewConflict(
                "Git is at work in the project.", hint="Wait for it, or remove a stale index.lock.", code=GIT_BUSY
            )
        places = collect_directories(tops)
        places |= {path for path, top in tops.items() if top.kind == "directory"}
        in_the_way = {path for path in places if self.transfer.get_kind(path) not in {None, "directory"}}
        if in_the_way:
            raise ReviewConflict(
                f"{', '.join(sorted(in_the_way))} is a file in the project.", hint="Accept its deletion first."
            )
        if changed := [op.path for op in ops if not self._is_as_expected(op, tops, bases)]:
            raise ReviewConflict(
                f"{format_paths(changed, MAX_NAMED)} changed in the project since the command; nothing was written.",
                hint="Reject these files, or have the command run again on the files as they are now.",
            )

    def _is_as_expected(self, op: TransferStep, tops: Tops, bases: Bases) -> bool:
        kind = self.transfer.get_kind(op.path)
        base = bases.get(op.path)
        if op.what == "directory" and kind == "directory":
            return True
        if op.what != "directory" and self.transfer.is_done(op):
            return True
        if kind is None:
            return base is None
        if base is not None and kind != "directory":
            return self.transfer.read_state(op.path) == base or self.is_refreshed_index(op.path, base)
        is_known = op.what != "put" or kind == "directory"
        return is_known and self.transfer.is_older(op.path, _find_since(tops, op.path))

    def is_refreshed_index(self, path: str, base: FileState) -> bool:
        """True if git only refreshed its index: a look at the project changes nothing else."""
        with suppress(AgentTuiError):
            return path.endswith(".git/index") and self.has_same_index(path, self.blobs.get(base.blob))
        return False

    def has_same_index(self, path: str, data: bytes) -> bool:
        """True if git's index in the project names the same content as these bytes."""
        with suppress(PathRefused):
            return is_same_index(data, self.workspace.read_bytes(path))
        return False


def _find_since(tops: Tops, path: str) -> int:
    while path and path not in tops:
        path = path.rpartition("/")[0]
    return tops[path].since


def may_have_changed(workspace: Workspace, stack: LayerStack, tops: Tops, bases: Bases) -> bool:
    """True if the project may differ from what commands saw there, judged by times alone: look closer then.

    Directories that only lead to what a command left do not count; those that it replaced do, themselves. What this
    does not see (deep in a directory that is to go, or beyond `MAX_CHECKED` entries) is seen when the bulk is accepted.
    """
    root = os.fsencode(workspace.root)
    for top, kept_top in tops.items():
        for path, entry in islice(stack.walk(top), MAX_CHECKED):
            if entry is not None and entry.is_directory and not is_opaque(entry.place):
                continue
            try:
                is_changed = os.lstat(root + b"/" + to_os_name(path)).st_ctime_ns >= kept_top.since
            except OSError:
                is_changed = path in bases
            if is_changed:
                return True
    return False
