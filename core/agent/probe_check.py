"""The proof that no probe is left: a look for marks in what is pending and in what is on disk, and their removal.

Probes are in no file, so there is nothing to find, unless a command wrote marks of its own; what is pending of that
loses the regions, exact to the byte. The user's own file is never changed; what is found there is told, and so is what
is found in ignored paths (build output), which are decided in bulk.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from core.debug.marks import has_marks, strip
from core.edits.textfile import decode
from core.errors import AgentTuiError, PathRefused
from core.protocol.review import Change, Origin
from core.shadow import Shadow

LARGEST = 8 << 20  # bytes of a file that is looked at
MOST_KEPT = 20_000  # files of ignored paths
TAKEN_OUT = Origin(tool="probe_check")


class Checked(Struct, frozen=True, kw_only=True):
    """How many files were looked at, and those in which a mark is left."""

    files: int
    left: tuple[str, ...] = ()


def take_out(shadow: Shadow, paths: Iterable[str] = (), *, kept: bool = False) -> Checked:
    """Take every region between marks out of what is pending, and look for what is left all the same, there or on disk:
    in files that are pending, in `paths`, and (`kept`) in what is kept of ignored paths. Raises `StateError`."""
    pending = {change.path: change for change in shadow.changes()}
    looked_at = sorted({*pending, *paths})
    for path in looked_at:
        if path in pending:
            _cleaned(shadow, pending[path])
    left = [path for path in looked_at if _marked(shadow, path)]
    ignored = [path for path in islice(shadow.kept_files(), MOST_KEPT) if path not in pending] if kept else []
    left += [path for path in ignored if has_marks(_seen(shadow, path) or b"")]
    return Checked(files=len({*looked_at, *ignored}), left=tuple(dict.fromkeys(left)))


def _cleaned(shadow: Shadow, change: Change) -> None:
    state = change.pending
    if state.kind != "file" or state.size > LARGEST:
        return
    data = shadow.blobs.get(state.blob)
    file = decode(data) if has_marks(data) else None
    if file is not None and (text := strip(file.text)) != file.text:
        shadow.edit(change.path, file.encode(text), TAKEN_OUT)


def _marked(shadow: Shadow, path: str) -> bool:
    return any(has_marks(data) for data in (_seen(shadow, path), _on_disk(shadow, path)) if data)


def _seen(shadow: Shadow, path: str) -> bytes | None:
    try:
        return shadow.read(path, LARGEST)
    except PathRefused:
        return None


def _on_disk(shadow: Shadow, path: str) -> bytes | None:
    try:
        return shadow.workspace.read_bytes(path, LARGEST)
    except AgentTuiError:
        return None
