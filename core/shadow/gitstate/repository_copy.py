"""A copy of a repository in the state that commands left, which git can read safely.

Only objects whose content matches their name are copied, and none that replaces an object of the project. So git's
answers about the copy are true, whatever was written below `.git/objects`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from core.git.layout import RepositoryLayout, find_layout, read_small_file
from core.git.repository import GitFailed, GitRepository, find_git, open_repository, read_settings
from core.git.safe_config import find_last, is_true, render_config
from core.git.temporary_directories import make_temporary_directory
from core.patterns import compile_lazily
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.merged_tree import MergedTree

_LOOSE = compile_lazily(r"[0-9a-f]{2}/[0-9a-f]{38}(?:[0-9a-f]{24})?\Z")
_COPIED = compile_lazily(r"(?:HEAD|packed-refs|index|sharedindex\..*)\Z")
UNDER_WAY = ("rebase-merge", "rebase-apply", "sequencer")
_ENDED = (*UNDER_WAY, "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
_MAX_FILE_BYTES = 1 << 20
_MAX_INDEX_BYTES = 1 << 28
_MAX_DIRECTORIES = 100_000


class RepositoryCopy(Struct, frozen=True):
    """A repository at `rel`: `now` is the state that commands left; `before` the project's own, None if there is none.
    `head` of `now`; `hash_name`: the algorithm of its object names; `under_way`: directories of a rebase that commands
    began; `ended`: marker files of operations in the project that commands ended; `signs`: the settings of the user or
    of the repository require signed commits."""

    rel: str
    now: GitRepository
    before: GitRepository | None
    layout: RepositoryLayout | None
    head: bytes
    hash_name: str
    under_way: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    signs: bool = False

    @property
    def oid_bytes(self) -> int:
        """The length of an object name in bytes."""
        return 32 if self.hash_name == "sha256" else 20


@contextmanager
def copy_repository(tree: MergedTree, rel: str) -> Iterator[RepositoryCopy]:
    """Copy the repository in the directory `rel`, which is named `.git`. Raises `GitFailed` if git cannot read it."""
    root = (tree.workspace.root / rel).parent
    with make_temporary_directory() as directory, open_repository(root) as before:
        empty_tree = directory / "tree"
        empty_tree.mkdir()
        now = GitRepository(find_git(root), directory, root if root.is_dir() else empty_tree)
        layout = find_layout(root) if before else None
        if before is None and os.path.lexists(root / ".git" / "HEAD"):
            raise GitFailed(f"{rel} of the project is not a separate repository.")
        head = _read_file(tree, f"{rel}/HEAD")
        users, own_settings = read_settings(now, _read_file(tree, f"{rel}/config"))
        (now.directory / "config").write_text(
            render_config(users, own_settings, head), encoding="utf-8", errors="surrogateescape"
        )
        hashes = "sha256" if ("extensions.objectformat", "sha256") in own_settings else "sha1"
        if "reftable" in tree.list_names(rel):
            raise GitFailed(f"{rel} stores its references in a reftable, which can't be compared here.")
        _copy_files(tree, rel, now.directory)
        if layout is not None and (shallow := _read_shallow(layout)):
            (now.directory / "shallow").write_bytes(shallow)
        _copy_objects(tree, rel, now, layout, hashes)
        begun_operations = tuple(
            name for name in UNDER_WAY if isinstance(tree.stack.find(f"{rel}/{name}"), LayeredEntry)
        )
        on_disk = (name for name in _ENDED if before is not None and tree.find_on_disk(f"{rel}/{name}") is not None)
        ended_operations = tuple(name for name in on_disk if tree.find_node(f"{rel}/{name}") is None)
        signs = is_true(find_last([*users, *own_settings], "commit.gpgsign"))
        yield RepositoryCopy(rel, now, before, layout, head, hashes, begun_operations, ended_operations, signs)


def _read_file(tree: MergedTree, rel: str, limit: int = _MAX_FILE_BYTES) -> bytes:
    node = tree.find_node(rel)
    return tree.read(rel, node, limit) if node is not None and node.kind == "file" else b""


def _read_shallow(layout: RepositoryLayout) -> bytes:
    """Read the shallow boundary of the project's own history; one written by commands would hide commits."""
    try:
        return read_small_file(layout.common / "shallow")
    except OSError:
        return b""


def _copy_files(tree: MergedTree, rel: str, directory: Path) -> None:
    """Copy references with their logs, and the index, but nothing that changes how git reads them."""
    for subdirectory in ("refs/heads", "refs/tags", "objects/pack", "objects/info"):
        (directory / subdirectory).mkdir(parents=True, exist_ok=True)
    for name, kind in tree.list_names(rel).items():
        if kind == "file" and _COPIED.match(name):
            (directory / name).write_bytes(_read_file(tree, f"{rel}/{name}", _MAX_INDEX_BYTES))
    waiting, count = ["refs", "logs"], 0
    while waiting and (count := count + 1) < _MAX_DIRECTORIES:
        inside = waiting.pop()
        (directory / inside).mkdir(parents=True, exist_ok=True)
        for name, kind in tree.list_names(f"{rel}/{inside}").items():
            if kind == "directory":
                waiting.append(f"{inside}/{name}")
            elif kind == "file":
                (directory / inside / name).write_bytes(_read_file(tree, f"{rel}/{inside}/{name}"))


def _copy_objects(tree: MergedTree, rel: str, now: GitRepository, layout: RepositoryLayout | None, hashes: str) -> None:
    objects = now.directory / "objects"
    if layout is not None:
        (objects / "info" / "alternates").write_bytes(os.fsencode(layout.common / "objects") + b"\n")
    for path, entry in tree.stack.walk(f"{rel}/objects"):
        if entry is None or not stat.S_ISREG(entry.stats.st_mode):
            continue
        name, source = path.removeprefix(f"{rel}/objects/"), Path(os.fsdecode(entry.location))
        if name.startswith("pack/pack-") and name.endswith(".pack"):
            with suppress(GitFailed):
                target = objects / name
                target.symlink_to(source)
                now.run("index-pack", "-o", str(target.with_suffix(".idx")), str(target), seconds=60.0)
        elif layout is not None and os.path.lexists(layout.common / "objects" / name):
            continue
        elif _LOOSE.match(name) and _is_intact(source, name, hashes):
            (objects / name).parent.mkdir(exist_ok=True)
            (objects / name).symlink_to(source)


def _is_intact(source: Path, name: str, hashes: str) -> bool:
    """True if the content of a loose object matches its name."""
    digest, decompressor = hashlib.new(hashes), zlib.decompressobj()
    try:
        with source.open("rb") as file:
            while data := file.read(_MAX_FILE_BYTES):
                while data:
                    digest.update(decompressor.decompress(data, _MAX_FILE_BYTES))
                    data = decompressor.unconsumed_tail
        digest.update(decompressor.flush())
    except (OSError, zlib.error):
        return False
    return decompressor.eof and digest.hexdigest() == name.replace("/", "")
