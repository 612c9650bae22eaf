"""The notes on a state of git: what commands left in the repository, and does not go with what is taken over.

Nothing is dropped without a word: files that are no state, commits of submodules, and signatures that the user's
settings ask for.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator

from core.git.history import is_object_name, read_commit
from core.shadow.content.paths import format_paths
from core.shadow.effects.path_classes import is_git_protected
from core.shadow.gitstate.outcome import GitOutcome
from core.shadow.gitstate.repository_copy import RepositoryCopy
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.merged_tree import MergedTree

_STATE = re.compile(r"(?:HEAD|index|packed-refs|refs|logs|objects)(?:/|\Z)|sharedindex\.[0-9a-f]+\Z")
# What git writes at every turn and never reads again by itself.
_QUIETLY_LEFT = re.compile(r"(?:COMMIT_EDITMSG|TAG_EDITMSG|AUTO_MERGE|gc\.pid|gc\.log)\Z|.*\.lock\Z")
_SIGNATURE = re.compile(rb"(?m)^gpgsig(?:-sha256)? ")
_LEFT_OUT = "left out, since it is no reference, HEAD, index or object: {}"
_SUBMODULE = "the commit {} of the submodule {} is left out: accept its files, then commit in {}"
_UNSIGNED = (
    "not signed, though commit.gpgSign is set, as commands reach no key: git commit --amend --no-edit -S signs the last"
)
_LOG = "/logs/HEAD"
_MODULES = "modules"  # below `.git`, where the repositories of submodules lie
_MAX_NAMED = 30  # paths in a note
_MAX_SINGLE = 3  # files of one directory that are named one by one
_MAX_LOG = 16 << 20  # bytes


def list_notes(tree: MergedTree, repository: RepositoryCopy, outcome: GitOutcome) -> Iterator[str]:
    """Yield a line for everything that commands did in a repository and that is not taken over. Raises `GitFailed`."""
    yield from outcome.notes
    modules = dict(_list_submodules(tree, repository.rel))
    for name, oid in modules.items():
        yield _SUBMODULE.format(oid[:10], name, name)
    omissions = [path for path in _list_left_out(tree, repository, outcome) if not _is_below(path, modules)]
    if omissions:
        yield _LEFT_OUT.format(format_paths(_join_directories(omissions), _MAX_NAMED))
    if repository.signs and not outcome.refused:
        commits = (read_commit(repository.now, oid) for oid in outcome.list_resulting())
        if any(not _SIGNATURE.search(commit.head) for commit in commits):
            yield _UNSIGNED


def _is_below(path: str, modules: Iterable[str]) -> bool:
    return any(path.startswith(f"{_MODULES}/{name}/") for name in modules)


def _list_submodules(tree: MergedTree, rel: str) -> Iterator[tuple[str, str]]:
    """Yield the submodules that commands committed in, with the commit that is checked out there now."""
    top = f"{rel}/{_MODULES}/"
    for path, entry in tree.stack.walk(top.rstrip("/")):
        if entry is not None and path.endswith(_LOG):
            node = tree.find_node(path)
            now = _read_last(tree.read(path, node, _MAX_LOG)) if node is not None else ""
            before = _read_last(tree.workspace.read_bytes(path)) if tree.find_on_disk(path) is not None else ""
            if now and now != before:
                yield path.removeprefix(top).removesuffix(_LOG), now


def _read_last(log: bytes) -> str:
    """Return the object that the last line of a reference's log leads to; "" = none."""
    words = log.rstrip(b"\n").rpartition(b"\n")[2].split(b" ", 2)
    return words[1].decode("ascii", "replace") if len(words) > 1 and is_object_name(words[1]) else ""


def _list_left_out(tree: MergedTree, repository: RepositoryCopy, outcome: GitOutcome) -> list[str]:
    """List the files that commands changed in a repository and that are not taken over."""
    rel, omissions = repository.rel, dict.fromkeys(outcome.strange)
    known_names = {*outcome.before, *outcome.after}
    log_paths = {f"logs/{name}" for name in known_names}
    for path, entry in tree.stack.walk(rel):
        inside = path.removeprefix(rel).lstrip("/")
        is_directory = entry is not None and entry.is_directory
        if not inside or is_directory or is_git_protected(path) or _QUIETLY_LEFT.match(inside):
            continue
        is_unknown = not _STATE.match(inside) or (inside.startswith("logs/") and inside not in log_paths)
        if inside.startswith("refs/") and not outcome.refused:
            is_unknown = inside not in known_names or (entry is not None and stat.S_ISLNK(entry.stats.st_mode))
        if is_unknown and (entry is not None or tree.find_on_disk(path) is not None):
            omissions[inside] = None
    omissions |= dict.fromkeys(_list_unread_packed(tree, repository, known_names))
    return list(omissions)


def _list_unread_packed(tree: MergedTree, repository: RepositoryCopy, known_names: set[str]) -> Iterator[str]:
    """Yield the names in the file of many references that git makes no reference of, and that commands wrote."""
    path, file = f"{repository.rel}/packed-refs", repository.now.directory / "packed-refs"
    node = tree.find_on_disk(path)
    if not file.is_file() or not isinstance(tree.stack.find(path), LayeredEntry):
        return
    old = tree.workspace.read_bytes(path) if node is not None and node.kind == "file" else b""
    before = set(old.split(b"\n"))
    for line in file.read_bytes().split(b"\n"):
        name = os.fsdecode(line.partition(b" ")[2])
        if line not in before and name and not line.startswith((b"#", b"^")) and name not in known_names:
            yield f"{name} of packed-refs"


def _join_directories(names: Iterable[str]) -> list[str]:
    by_directory = defaultdict[str, list[str]](list)
    for name in sorted(names):
        by_directory[name.partition("/")[0] if "/" in name else ""].append(name)
    entries = by_directory.pop("", [])
    for directory, files in by_directory.items():
        entries += files if len(files) <= _MAX_SINGLE or directory == "refs" else [f"{directory}/ ({len(files)} files)"]
    return sorted(entries)
