"""What git says of the project: branch and changed files, for the model. Never more than a convenience.

A repository can name programs in its configuration (hooks, monitors, filters); none of them may run because somebody
asked for a status. So all of these are switched off on the command line, the filters one by one, by name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from core.sandbox.environment import command_environment

TIME_LIMIT = 1.5
MAX_FILES = 40
_SAFE = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "submodule.recurse=false"),
    "--no-optional-locks",
    "--no-pager",
)


def git_status(root: Path) -> str:
    """Branch and changed files as text; "" when there is no git, no repository, or no answer in time."""
    git = shutil.which("git", path=_path_without(root))
    if git is None or not (root / ".git").exists():
        return ""
    try:
        filters = _without_filters(_run(git, root, ["config", "--null", "--name-only", "--get-regexp", r"^filter\."]))
        options = ["status", "--porcelain=v1", "--branch", "--untracked-files=normal", "--ignore-submodules=all"]
        return _summary(_run(git, root, [*options, "--no-renames"], filters))
    except (OSError, subprocess.SubprocessError):
        return ""


def _path_without(root: Path) -> str:
    """PATH without anything in the project: its git is not ours."""
    entries = command_environment(os.environ)["PATH"].split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if not Path(entry).resolve().is_relative_to(root))


def _run(git: str, root: Path, arguments: Sequence[str], options: Sequence[str] = ()) -> str:
    done = subprocess.run(
        [git, *_SAFE, *options, *arguments],
        cwd=root,
        env=command_environment(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    return done.stdout[:200_000].decode("utf-8", "replace")


def _without_filters(names: str) -> list[str]:
    """Options that empty every configured filter."""
    found = {name.removeprefix("filter.").rpartition(".")[0] for name in names.split("\0") if "." in name}
    options: list[str] = []
    for name in sorted(filter(None, found)):
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")):
            options += ["-c", f"filter.{name}.{key}={value}"]
    return options


def _summary(text: str) -> str:
    branch, *files = text.splitlines() or [""]
    if not branch.startswith("## "):
        return ""
    lines = [f"branch: {branch.removeprefix('## ')}"]
    if not files:
        return f"{lines[0]}\nno changes"
    lines += [f"  {line}" for line in files[:MAX_FILES]]
    if len(files) > MAX_FILES:
        lines.append(f"  … {len(files) - MAX_FILES} more")
    return "\n".join(lines)
