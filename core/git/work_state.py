"""The state of a repository at work: its HEAD, an unfinished operation, its hooks (gitrepository-layout(5))."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.git.layout import RepositoryLayout
from core.git.repository import GitFailed, GitRepository, read_config_text, read_settings
from core.git.safe_config import find_last

_OPERATIONS: Final = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase, or the application of patches",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick or revert of several commits",
}

_HOOKS: Final = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction")


class HeadState(Struct, frozen=True, kw_only=True):
    """`branch` "": HEAD is detached; `commit` "": there is none yet."""

    branch: str
    commit: str


def find_operation(layout: RepositoryLayout) -> str:
    """Return the unfinished operation of the repository (`a rebase`); "" = there is none."""
    return next((words for name, words in _OPERATIONS.items() if os.path.lexists(layout.own / name)), "")


def read_head(repository: GitRepository) -> HeadState:
    """Read the position of HEAD."""
    return HeadState(
        branch=_query(repository, "symbolic-ref", "--quiet", "--short", "HEAD"),
        commit=_query(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"),
    )


def list_recent_messages(repository: GitRepository, count: int) -> list[str]:
    """Return the messages of the latest commits, newest first; merges are left out. Empty before the first commit."""
    command = ("log", "--no-merges", f"--max-count={count}", "--no-show-signature", "-z", "--format=%B")
    try:
        output = repository.run(*command).decode("utf-8", "replace")
    except GitFailed:
        return []
    return [message.strip() for message in output.split("\0") if message.strip()]


def list_subjects(repository: GitRepository, base: str) -> list[str]:
    """Return the subjects of the commits of HEAD that `base` ("": nothing) does not have, oldest first."""
    span = f"{base}..HEAD" if base else "HEAD"
    command = ("log", "--reverse", "--max-count=100", "--no-show-signature", "--format=%s", span)
    return [subject for subject in _query(repository, *command).split("\n") if subject]


def read_branch_name(repository: GitRepository, name: str) -> str:
    """Return the branch behind a name: `origin/main` for `origin/HEAD`."""
    return _query(repository, "rev-parse", "--abbrev-ref", name) if name else ""


def _query(repository: GitRepository, *arguments: str) -> str:
    """Return git's answer; "" = it has none, as for a name that does not exist."""
    try:
        return repository.run(*arguments).decode("utf-8", "replace").strip()
    except GitFailed:
        return ""


def list_commit_hooks(repository: GitRepository, layout: RepositoryLayout) -> dict[str, Path]:
    """Return the hooks that `git commit` would run here, by name. Raises `GitFailed`."""
    users, own_pairs = read_settings(repository, read_config_text(layout))
    hooks_path = find_last([*users, *own_pairs], "core.hookspath")
    folder = layout.root / Path(hooks_path).expanduser() if hooks_path else layout.common / "hooks"
    return {name: folder / name for name in _HOOKS if _is_program(folder / name)}


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
