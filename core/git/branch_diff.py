"""The difference of a branch from its fork point on the main branch: its commits, and uncommitted changes.

Of a repository above the workspace only the part in the workspace is included; files that the agent may not read are
not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.git.repository import GitFailed, GitRepository, open_repository
from core.patterns import compile_lazily
from core.text.counting import count

_MAX_DIFF: Final = 60_000  # bytes
_MAX_FILES: Final = 300  # in one difference
_TIME_LIMIT: Final = 3.0  # seconds
_SAFE: Final = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
_REVISION: Final = compile_lazily(r"[\w@][\w./@{}~^+#-]*")
_MAIN: Final = ("origin/HEAD", "main", "master", "develop", "origin/main", "origin/master", "origin/develop")


class BranchBase(Struct, frozen=True, kw_only=True):
    """The commit at which a branch left the `main` one, and the number of commits since."""

    main: str
    commit: str
    ahead: int


def find_base(root: Path) -> BranchBase | None:
    """Find the fork point of the current branch in the worktree around `root`; None = there is no other branch to
    compare with. A main branch is compared with its upstream. Raises `GitFailed`, also without a repository."""
    with _open(root) as repository:
        return _find_base(repository)


@contextmanager
def _open(root: Path) -> Iterator[GitRepository]:
    with open_repository(root, may_be_above=True) as repository:
        if repository is None:
            raise GitFailed("this directory is not in a git repository.")
        yield repository


def _find_base(repository: GitRepository) -> BranchBase | None:
    head = _run(repository, "rev-parse", "--verify", "--quiet", "HEAD")
    if not head:
        raise GitFailed("the repository has no commit yet.")
    return _find_fork(repository, "HEAD", _run(repository, "symbolic-ref", "--quiet", "--short", "HEAD"))


def _find_fork(repository: GitRepository, tip: str, name: str) -> BranchBase | None:
    """Find where the branch `name` with this tip left a main branch other than itself."""
    for main in _MAIN:
        if main == name:
            continue
        commit = _run(repository, "merge-base", tip, main)
        if commit:
            ahead = _run(repository, "rev-list", "--count", f"{commit}..{tip}")
            return BranchBase(main=main, commit=commit, ahead=int(ahead or 0))
    return None


def _run(repository: GitRepository, *arguments: str) -> str:
    """Return git's answer; "" = it has none, as for a name that does not exist."""
    try:
        return repository.run(*arguments, seconds=_TIME_LIMIT).decode("utf-8", "replace").strip()
    except GitFailed:
        return ""


def describe_branch(base: BranchBase) -> str:
    """Describe a branch in a few words: `3 commits since main`."""
    return f"{count('commit', base.ahead)} since {base.main}"


def render_branch_diff(root: Path, may_show: Callable[[str], bool]) -> str:
    """Render the commits of the branch and its difference, with uncommitted changes, up to a limit. `may_show`: True if
    the agent may read a path of the workspace. Raises `GitFailed`."""
    with _open(root) as repository:
        base = _find_base(repository)
        if base is None:
            return ""
        log = _list_log(repository, base.commit, "HEAD")
        comparison = _compare(repository, root, may_show, base.commit)
    lines = [
        f"{describe_branch(base)} ({base.commit[:12]})",
        log,
        comparison.summary,
        comparison.patch[:_MAX_DIFF].decode("utf-8", "replace"),
    ]
    if len(comparison.patch) > _MAX_DIFF:
        lines.append(f"… {len(comparison.patch) - _MAX_DIFF:,} bytes more: see git diff {base.commit[:12]}")
    if comparison.left_out:
        lines.append(f"… {comparison.left_out} more files, or files hidden from you")
    return "\n".join(filter(None, lines)).rstrip()


class _Comparison(Struct, frozen=True):
    """A comparison of two sides. `left_out`: number of differing paths that are not shown."""

    summary: str
    patch: bytes
    left_out: int


def _list_log(repository: GitRepository, low: str, high: str) -> str:
    return _run(repository, "log", "--oneline", "--no-decorate", "--max-count=50", f"{low}..{high}")


def _compare(repository: GitRepository, root: Path, may_show: Callable[[str], bool], *revisions: str) -> _Comparison:
    """Compare a commit with another one, or with the files on the disk; paths are relative to the workspace."""
    prefix = _find_prefix(repository, root)
    compare = ("diff", *_SAFE, f"--relative={prefix}" if prefix else "--no-relative", *revisions)
    listing = repository.run(*compare, "--name-only", "-z", seconds=_TIME_LIMIT).decode("utf-8", "surrogateescape")
    paths = [path for path in listing.split("\0") if path]
    visible_paths = [path for path in paths if may_show(path)][:_MAX_FILES]
    limits = ("--", *(f":(top,literal){prefix}{path}" for path in visible_paths))
    summary = repository.run(*compare, "--stat", *limits, seconds=_TIME_LIMIT) if visible_paths else b""
    patch = repository.run(*compare, *limits, seconds=_TIME_LIMIT) if visible_paths else b""
    return _Comparison(summary.decode("utf-8", "replace"), patch, len(paths) - len(visible_paths))


def _find_prefix(repository: GitRepository, root: Path) -> str:
    """Return the path of the workspace in the worktree: "" or `directory/`."""
    prefix = root.resolve().relative_to(repository.root).as_posix()
    return "" if prefix == "." else f"{prefix}/"


class ReviewedDiff(Struct, frozen=True, kw_only=True):
    """A difference for a reviewer to read.

    `subject` describes it in a few words; `revision` is its right side, "" = the files on the disk; `left_out`: number
    of differing paths that are not shown.
    """

    subject: str
    patch: str
    revision: str = ""
    log: str = ""
    left_out: int = 0


def read_reviewed_diff(root: Path, target: str, may_show: Callable[[str], bool]) -> ReviewedDiff:
    """Read the difference of `target`: a branch or a commit since it left the main branch, `A..B`, or "": the current
    branch with uncommitted changes and new files. Raises `GitFailed`."""
    with _open(root) as repository:
        low, high, subject = _find_sides(repository, target)
        comparison = _compare(repository, root, may_show, *filter(None, (low, high)))
        fresh, hidden_count = ("", 0) if high else _render_untracked(repository, root, may_show)
        log = _list_log(repository, low, high or "HEAD") if _run(repository, "cat-file", "-t", low) == "commit" else ""
    patch = comparison.patch.decode("utf-8", "replace") + fresh
    return ReviewedDiff(
        subject=subject, patch=patch, revision=high, log=log, left_out=comparison.left_out + hidden_count
    )


def _find_sides(repository: GitRepository, target: str) -> tuple[str, str, str]:
    """Find both sides, the right one "" for the files on the disk, and the subject of their difference."""
    current = _run(repository, "symbolic-ref", "--quiet", "--short", "HEAD")
    if ".." in target:
        left, dots, right = re.split(r"(\.{2,3})", target, maxsplit=1)
        low, high = _find_commit(repository, left or "HEAD"), _find_commit(repository, right or "HEAD")
        return (_run(repository, "merge-base", low, high) or low) if dots == "..." else low, high, target
    if target in {"", current, "HEAD"}:
        base = _find_base(repository)
        subject = f"{current or 'HEAD'}: {describe_branch(base)}, and uncommitted changes" if base else ""
        return (base.commit if base else "HEAD"), "", subject or "uncommitted changes"
    tip = _find_commit(repository, target)
    if target in _MAIN and (base_commit := _run(repository, "merge-base", "HEAD", tip)):
        return base_commit, "", f"{current or 'HEAD'} since {target}, and uncommitted changes"
    base = _find_fork(repository, tip, target)
    if base is not None and base.ahead:
        return base.commit, tip, f"{target}: {describe_branch(base)}"
    before = _run(repository, "rev-parse", "--verify", "--quiet", f"{tip}^")
    return before or _run(repository, "hash-object", "-t", "tree", "--stdin"), tip, f"the commit {tip[:12]}"


def _find_commit(repository: GitRepository, name: str) -> str:
    """Return the commit of a name, also of a branch that only `origin` has. Raises `GitFailed`."""
    if _REVISION.fullmatch(name):
        for revision in (name, f"origin/{name}"):
            if commit := _run(repository, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"):
                return commit
    raise GitFailed(
        f"there is no branch or commit {name!r}.", hint="git branch -a lists the branches; git fetch gets new ones."
    )


def _render_untracked(repository: GitRepository, root: Path, may_show: Callable[[str], bool]) -> tuple[str, int]:
    """Render untracked files as additions; return the number of those that are not shown, too."""
    prefix = _find_prefix(repository, root)
    listing = repository.run("ls-files", "--others", "--exclude-standard", "-z", seconds=_TIME_LIMIT * 3)
    names = listing.decode("utf-8", "surrogateescape").split("\0")
    paths = [name.removeprefix(prefix) for name in names if name and name.startswith(prefix)]
    texts = {path: text for path in paths[:_MAX_FILES] if may_show(path) and (text := _read_new(root / path))}
    return "".join(_render_addition(path, text) for path, text in texts.items()), len(paths) - len(texts)


def _read_new(path: Path) -> str:
    """Return the text of a regular file; "" = it is not regular, empty, too large or not text."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_DIFF:
            return ""
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _render_addition(path: str, text: str) -> str:
    lines = text.removesuffix("\n").split("\n")
    end = "" if text.endswith("\n") else "\\ No newline at end of file\n"
    head = (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    )
    return head + "".join(f"+{line}\n" for line in lines) + end
