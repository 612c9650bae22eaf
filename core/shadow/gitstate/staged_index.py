"""The index that is taken over: what commands staged, and of the rest what the project's own index says.

An index holds more than what is staged: extensions (a cached tree that a commit would use, a shared file, a monitor),
cached file status, and marks that keep git from looking at a file. None of that is taken over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from core.git.history import GitEntry
from core.git.index import IndexEntry, read_entries, rebuild_index
from core.git.repository import GitFailed, GitRepository
from core.shadow.content.paths import format_paths
from core.shadow.gitstate.repository_copy import RepositoryCopy
from core.workspace.file_names import from_os_name

_Content = tuple[bytes, bytes, int]  # mode, object, intent to add
_PLAIN_MODE = "100644"
_MAX_NAMED = 20  # paths in a line
_DIRECTORY_MODE = bytes.fromhex("00004000")
_HIDING = 0x8000, 0x4000  # assume-unchanged of the flags, skip-worktree of the extended ones


class StagedIndex(Struct, frozen=True):
    """The index as it may be. `data`: its bytes; empty: there is none; None: it stages what the project's own
    does. `lines` name each path that is staged otherwise than before, and `paths` list them; `marked`: paths whose
    marks commands changed, which is taken back."""

    data: bytes | None = None
    lines: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


def compute_staged_index(repository: RepositoryCopy, committed_entries: Iterable[GitEntry]) -> StagedIndex:
    """Compute the index from the one in `repository.now`. `committed_entries`: what HEAD will have. Raises
    `GitFailed`."""
    now = _read_index(repository.now, repository.now.directory / "index", repository)
    before = list[IndexEntry]()
    if repository.before is not None:
        before = _read_index(repository.before, repository.before.directory / "index", repository)
    entries_by_key = {entry.key: entry for entry in before}
    prefix = repository.rel.removesuffix(".git")
    marked_paths = sorted(
        {prefix + from_os_name(entry.name) for entry in now if _is_marked_anew(entry, entries_by_key.get(entry.key))}
    )
    staged_contents = {entry.key: entry.content for entry in now}
    earlier_contents = {entry.key: entry.content for entry in before}
    if staged_contents == earlier_contents:
        return StagedIndex(marked=tuple(marked_paths))
    is_there = (repository.now.directory / "index").is_file()
    data = rebuild_index(now, before, repository.oid_bytes) if is_there else b""
    heads = {
        entry.path: (int(entry.mode, 8).to_bytes(4, "big"), bytes.fromhex(entry.oid), 0) for entry in committed_entries
    }
    keys = sorted(
        {
            key
            for key in staged_contents.keys() | earlier_contents.keys()
            if staged_contents.get(key) != earlier_contents.get(key)
        }
    )
    follows = [name for name, stage in keys if stage == 0 and staged_contents.get((name, 0)) == heads.get(name)]
    others = [key for key in keys if key[1] or key[0] not in follows]
    states = [(name, _describe_entry(staged_contents.get((name, stage)), heads.get(name))) for name, stage in others]
    paths = sorted({prefix + from_os_name(name) for name, _ in keys})
    lines = tuple(_describe(prefix, follows, states))
    return StagedIndex(data=data, lines=lines, marked=tuple(marked_paths), paths=tuple(paths))


def _describe_entry(content: _Content | None, head: _Content | None) -> str:
    """Describe what is staged of a path beside what HEAD will have of it, with modes where these say something."""
    if content is None:
        return "removed"
    mode = _format_mode(content)
    if head is None:
        return "new" if mode == _PLAIN_MODE else f"new, mode {mode}"
    return "changed" if mode == _format_mode(head) else f"changed, mode {_format_mode(head)} → {mode}"


def _format_mode(content: _Content) -> str:
    return f"{int.from_bytes(content[0], 'big'):06o}"


def _describe(prefix: str, follows: list[bytes], others: list[tuple[bytes, str]]) -> Iterator[str]:
    if others:
        labels = dict.fromkeys(f"{prefix}{from_os_name(name)} ({state})" for name, state in others)
        yield f"Staged: {format_paths(list(labels), _MAX_NAMED)}."
    if follows:
        labels = dict.fromkeys(prefix + from_os_name(name) for name in follows)
        yield f"The index, as HEAD will be: {format_paths(list(labels), _MAX_NAMED)}."


def _is_marked_anew(entry: IndexEntry, old_entry: IndexEntry | None) -> bool:
    marks = tuple(word & bit for word, bit in zip((entry.flags, entry.extended), _HIDING, strict=True))
    old = (old_entry.flags, old_entry.extended) if old_entry is not None else (0, 0)
    return marks != tuple(word & bit for word, bit in zip(old, _HIDING, strict=True))


def _read_index(room: GitRepository, source: Path, repository: RepositoryCopy) -> list[IndexEntry]:
    """Read an index that may be split in two files or leave directories out: git writes a copy of it as a whole."""
    if not source.is_file():
        return []
    copy = room.directory / "index-as-a-whole"
    copy.write_bytes(source.read_bytes())
    variables = {"GIT_INDEX_FILE": str(copy)}
    room.run("update-index", "--no-split-index", "--force-write-index", variables=variables, seconds=30.0)
    try:
        entries = read_entries(copy.read_bytes(), repository.oid_bytes)
    except ValueError as problem:
        raise GitFailed(f"the index of {repository.rel} is damaged.") from problem
    if any(entry.status[24:28] == _DIRECTORY_MODE for entry in entries):
        raise GitFailed(f"the index of {repository.rel} leaves directories out, which is not compared here.")
    return entries
