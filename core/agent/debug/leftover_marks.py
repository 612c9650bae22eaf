"""The proof that no probe is left: a search for marks in what is pending and on disk, and their removal.

Probes are in no file, unless a command wrote marks of its own; what is pending of that loses the regions, exact to the
byte. What is found in the user's own files, or in ignored paths, is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from core.debug.probe_regions import has_regions, remove_probes
from core.edits.text_file import decode_text
from core.errors import AgentTuiError, PathRefused
from core.protocol.review import Change, Origin
from core.shadow.bulk.bulk_summary import list_retained_files
from core.shadow.shadow import Shadow

MAX_FILE_SIZE = 8 << 20  # bytes of a file that is looked at
MAX_IGNORED_FILES = 20_000  # files of ignored paths
REMOVAL_ORIGIN = Origin(tool="probe_check")


class LeftoverMarks(Struct, frozen=True, kw_only=True):
    """Count of the files that were searched, and the paths in which a mark is left."""

    file_count: int
    paths: tuple[str, ...] = ()


def remove_marks(shadow: Shadow, paths: Iterable[str] = (), *, includes_ignored: bool = False) -> LeftoverMarks:
    """Remove regions between marks from what is pending (and `paths`); return what is left. Raises `StateError`."""
    pending = {change.path: change for change in shadow.list_changes()}
    looked_at = sorted({*pending, *paths})
    for path in looked_at:
        if path in pending:
            _remove_pending_marks(shadow, pending[path])
    marked_paths = [path for path in looked_at if _is_marked(shadow, path)]
    ignored_paths = (
        [path for path in islice(list_retained_files(shadow.merged_tree), MAX_IGNORED_FILES) if path not in pending]
        if includes_ignored
        else []
    )
    marked_paths += [path for path in ignored_paths if has_regions(_read_merged(shadow, path) or b"")]
    return LeftoverMarks(file_count=len({*looked_at, *ignored_paths}), paths=tuple(dict.fromkeys(marked_paths)))


def _remove_pending_marks(shadow: Shadow, change: Change) -> None:
    state = change.pending
    if state.kind != "file" or state.size > MAX_FILE_SIZE:
        return
    data = shadow.blobs.get(state.blob)
    file = decode_text(data) if has_regions(data) else None
    if file is not None and (text := remove_probes(file.text)) != file.text:
        shadow.edit(change.path, file.encode(text), REMOVAL_ORIGIN)


def _is_marked(shadow: Shadow, path: str) -> bool:
    return any(has_regions(data) for data in (_read_merged(shadow, path), _read_disk(shadow, path)) if data)


def _read_merged(shadow: Shadow, path: str) -> bytes | None:
    try:
        return shadow.read(path, MAX_FILE_SIZE)
    except PathRefused:
        return None


def _read_disk(shadow: Shadow, path: str) -> bytes | None:
    try:
        return shadow.workspace.read_bytes(path, MAX_FILE_SIZE)
    except AgentTuiError:
        return None
