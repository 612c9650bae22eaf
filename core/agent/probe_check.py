"""The proof that no probe is left: a look for marks in what is pending and in what is on disk, and their removal.

Probes are in no file, so there is nothing to find, unless a command wrote marks of its own; what is pending of that
loses the regions, exact to the byte. The user's own file is never changed; what is found there is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.debug.marks import has_marks, strip
from core.edits.textfile import decode
from core.errors import AgentTuiError, PathRefused
from core.protocol.review import Change, Origin
from core.shadow import Shadow

LARGEST = 8 << 20  # bytes of a file that is looked at
TAKEN_OUT = Origin(tool="probe_check")


def take_out(shadow: Shadow, paths: Iterable[str] = ()) -> tuple[str, ...]:
    """Take every region between marks out of what is pending. The files in which a mark is left all the same, there or
    on disk, of those that are pending and of `paths`. Raises `StateError`."""
    left = []
    pending = {change.path: change for change in shadow.changes()}
    for path in sorted({*pending, *paths}):
        if path in pending:
            _cleaned(shadow, pending[path])
        if _marked(shadow, path):
            left.append(path)
    return tuple(left)


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
