"""Refuses verdicts that would replace the directory of a repository.

A command can move `.git`, or a directory that contains a repository, away and put a file or a link in its place.
Accepting that would delete the whole repository, which the review does not show. So it is refused for every path that
takes part in it; users can still do it themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.errors import ReviewConflict
from core.shadow.content.paths import walk_directory
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.path_classes import GENERATED, is_git_protected
from core.workspace.file_names import is_git_internal

REPOSITORY_LOST = "repository_lost"
_HINT = "Reject it; your repository stays as it is. If you do want to remove it, remove it yourself."
_KINDS = {"file": "a file", "symlink": "a link"}


def refuse_lost_repositories(tree: MergedTree, paths: Iterable[str], *, are_files: bool = False) -> None:
    """Raise `ReviewConflict` if accepting one of the paths would replace a repository or take part in that.
    `are_files`: the paths are accepted as changes of files, not as parts of a state of git."""
    reasons: dict[str, str | None] = {}
    with tree.cache_lookups():
        for path in paths:
            for git in _list_repositories(tree, path):
                if git not in reasons:
                    reasons[git] = describe_lost_repository(tree, git)
                reason = reasons[git]
                if not reason and are_files and path != git and _is_part_removed(tree, git, path):
                    reason = f"it is part of the repository {git}, which no change can remove."
                if reason:
                    raise ReviewConflict(
                        f"{path} can't be accepted: {reason} Nothing was written.", hint=_HINT, code=REPOSITORY_LOST
                    )


def describe_lost_repository(tree: MergedTree, git: str) -> str | None:
    """Return why the pending state of `git`, a path named `.git`, is no repository, as a sentence; None: it is a
    directory before and after, or was absent before."""
    before, now = tree.find_on_disk(git), tree.find_node(git)
    was_directory = before is not None and before.kind == "directory"
    is_directory = now is not None and now.kind == "directory"
    if was_directory and not is_directory:
        outcome = f"replaced by {_KINDS.get(now.kind, 'something else')}" if now else "removed"
        return f"{git} is the directory of a repository in your project, and would be {outcome}: not allowed."
    if before is not None and not was_directory and is_directory:
        is_now = _KINDS.get(before.kind, "something else")
        return f"{git} is {is_now} in your project, and would become a directory: not allowed."
    return None


def _is_part_removed(tree: MergedTree, git: str, path: str) -> bool:
    """True if a file that only git writes would be removed from a repository of the project."""
    is_there = tree.find_on_disk(git) is not None and tree.find_on_disk(path) is not None
    return is_there and tree.find_node(path) is None and not is_git_protected(path)


def _list_repositories(tree: MergedTree, path: str) -> list[str]:
    """List the paths named `.git` that equal `path`, contain it, or are below it if its directory is removed.

    Directories that tools fill may contain clones of their own, which do not count.
    """
    parts = path.split("/")
    repositories = ["/".join(parts[: index + 1]) for index, part in enumerate(parts) if is_git_internal(part)]
    if repositories or not GENERATED.isdisjoint(parts):
        return repositories[:1] if GENERATED.isdisjoint(parts) else []
    before, now = tree.find_on_disk(path), tree.find_node(path)
    if before is None or before.kind != "directory" or (now is not None and now.kind == "directory"):
        return []
    below = walk_directory(tree.workspace, path) or []
    return [child for child, _ in below if is_git_internal(child.rpartition("/")[2])]
