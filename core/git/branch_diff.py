"""The difference of a branch from where it left the main one: commits of it, and what is not committed yet.

Of a repository above the workspace, only what lies in it is told; of files that are kept from the agent, nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.git.repository import GitFailed, GitRepository, open_repository

MAX_DIFF: Final = 60_000  # bytes
MAX_FILES: Final = 300
TIME_LIMIT: Final = 3.0  # seconds
_SAFE: Final = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
_MAIN: Final = ("origin/HEAD", "main", "master", "develop", "origin/main", "origin/master", "origin/develop")


class BranchBase(Struct, frozen=True, kw_only=True):
    """The commit at which a branch left the `main` one, and how many came since."""

    main: str
    commit: str
    ahead: int


def find_base(root: Path) -> BranchBase | None:
    """Find where the branch of the worktree around `root` begins; None: there is no other branch to compare with. A
    main branch is compared with what it was pulled from. Raises `GitFailed`, also where there is no repository."""
    with _open(root) as made:
        return _find_base(made)


@contextmanager
def _open(root: Path) -> Iterator[GitRepository]:
    with open_repository(root, may_be_above=True) as made:
        if made is None:
            raise GitFailed("this directory is in no git repository.")
        yield made


def _find_base(made: GitRepository) -> BranchBase | None:
    head = _run(made, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head:
        raise GitFailed("the repository has no commit yet.")
    branch = _run(made, "symbolic-ref", "--quiet", "--short", "HEAD")
    for main in _MAIN:
        if main == branch:
            continue
        commit = _run(made, "merge-base", "HEAD", main)
        if commit:
            ahead = _run(made, "rev-list", "--count", f"{commit}..HEAD")
            return BranchBase(main=main, commit=commit, ahead=int(ahead or 0))
    return None


def _run(made: GitRepository, *arguments: str) -> str:
    """Return git's answer; "" when it has none, as for a name that does not exist."""
    try:
        return made.run(*arguments, seconds=TIME_LIMIT).decode("utf-8", "replace").strip()
    except GitFailed:
        return ""


def describe_branch(base: BranchBase) -> str:
    """Describe a branch in a few words: `3 commits since main`."""
    return f"{base.ahead} commit{'' if base.ahead == 1 else 's'} since {base.main}"


def render_branch_diff(root: Path, may_show: Callable[[str], bool]) -> str:
    """Render the commits of the branch and its difference, with what is not committed; bounded. `may_show`: whether the
    agent may read this path of the workspace. Raises `GitFailed`."""
    with _open(root) as made:
        base = _find_base(made)
        if base is None:
            return ""
        log = _run(made, "log", "--oneline", "--no-decorate", "--max-count=50", f"{base.commit}..HEAD")
        below = root.resolve().relative_to(made.root).as_posix()
        compare = ("diff", *_SAFE, f"--relative={below}/" if below != "." else "--no-relative", base.commit)
        named = made.run(*compare, "--name-only", "-z", seconds=TIME_LIMIT).decode("utf-8", "surrogateescape")
        paths = [each for each in named.split("\0") if each]
        shown = [each for each in paths if may_show(each)][:MAX_FILES]
        prefix = "" if below == "." else f"{below}/"
        limits = ("--", *(f":(top,literal){prefix}{each}" for each in shown))
        summary = made.run(*compare, "--stat", *limits, seconds=TIME_LIMIT) if shown else b""
        whole = made.run(*compare, *limits, seconds=TIME_LIMIT) if shown else b""
    told = [f"{describe_branch(base)} ({base.commit[:12]})", log, summary.decode("utf-8", "replace")]
    told.append(whole[:MAX_DIFF].decode("utf-8", "replace"))
    if len(whole) > MAX_DIFF:
        told.append(f"… {len(whole) - MAX_DIFF:,} bytes more: see git diff {base.commit[:12]}")
    if len(shown) < len(paths):
        told.append(f"… {len(paths) - len(shown)} more files, or such that are kept from you")
    return "\n".join(filter(None, told)).rstrip()
