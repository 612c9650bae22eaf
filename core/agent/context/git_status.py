"""Git's view of the project: branch and changed files, for the model. Never more than a convenience."""

from __future__ import annotations

from pathlib import Path

from core.git.repository import GitFailed, open_repository

TIME_LIMIT = 1.5  # seconds
MAX_FILES = 40
_MAX_ANSWER = 200_000  # bytes of an answer that are looked at
_STATUS_ARGUMENTS = (
    "status",
    "--porcelain=v1",
    "--branch",
    "--untracked-files=normal",
    "--ignore-submodules=all",
    "--no-renames",
)


def describe_git_status(root: Path) -> str:
    """Return branch and changed files as text; "" when there is no git, no repository, or no answer in time.

    No filter is run, so a file that one stores in another form (LFS) counts as changed as soon as its size or time
    differs from what git noted at its last look.
    """
    try:
        with open_repository(root) as made:
            return _summarize(made.run(*_STATUS_ARGUMENTS, seconds=TIME_LIMIT)) if made else ""
    except (OSError, GitFailed):
        return ""


def _summarize(answer: bytes) -> str:
    branch, *files = answer[:_MAX_ANSWER].decode("utf-8", "replace").splitlines() or [""]
    if not branch.startswith("## "):
        return ""
    lines = [f"branch: {branch.removeprefix('## ')}"]
    if not files:
        return f"{lines[0]}\nno changes"
    lines += [f"  {line}" for line in files[:MAX_FILES]]
    if len(files) > MAX_FILES:
        lines.append(f"  … {len(files) - MAX_FILES} more")
    return "\n".join(lines)
