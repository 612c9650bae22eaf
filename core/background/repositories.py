"""Repositories of background agents: validation of addresses, and cloning.

Addresses come from command lines or the API, so they must not reach a shell, be parsed as options, or name a transport
that starts programs (`ext::`). Clones are made without hooks, filters and submodules.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from core.errors import AgentTuiError, CommandRejected
from core.filesystem.removal import remove_tree
from core.patterns import compile_lazily
from core.search_paths import find_git

CLONE_SECONDS: Final = 600.0
SCHEMES: Final = ("https", "ssh", "file")
_SCP_LIKE: Final = compile_lazily(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[A-Za-z0-9._/~-]+")
_BRANCH: Final = compile_lazily(r"[A-Za-z0-9_][A-Za-z0-9._/+-]{0,200}")
_UNFIT: Final = compile_lazily(r"[\s;&|<>$`\\\"'(){}*?!\x00-\x1f\x7f]")
GIT_OPTIONS: Final = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never"),
    *("-c", "core.symlinks=true", "-c", "submodule.recurse=false", "-c", "filter.lfs.smudge=cat"),
    *("-c", "filter.lfs.required=false", "-c", "credential.interactive=false"),
)


class CloneFailed(AgentTuiError, code="clone_failed"):
    """A repository could not be cloned."""


def check_repository_url(url: str, branch: str = "") -> None:
    """Raise `CommandRejected` unless it is safe to pass this address and branch to git."""
    hint = "It looks like https://host/group/project.git, ssh://git@host/project.git or git@host:project.git."
    if _UNFIT.search(url) or url.startswith("-") or len(url) > 2000:
        raise CommandRejected(f"{url!r} is not a repository address.", hint=hint, code="repository_invalid")
    if not _SCP_LIKE.fullmatch(url):
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or (parts.scheme != "file" and not parts.hostname):
            raise CommandRejected(f"{url!r} is not a repository address.", hint=hint, code="repository_invalid")
        if parts.hostname and parts.hostname.startswith("-"):
            raise CommandRejected(f"{url!r} has no host.", hint=hint, code="repository_invalid")
        if parts.password:
            hint = "Store the password in git's credential helper."
            raise CommandRejected("the address contains a password.", hint=hint, code="repository_invalid")
    if branch and (not _BRANCH.fullmatch(branch) or ".." in branch or branch.endswith((".lock", "/", "."))):
        raise CommandRejected(f"{branch!r} is not a branch name.", code="branch_invalid")


async def clone_repository(url: str, branch: str, target: Path) -> None:
    """Clone into a new directory. Raises `CloneFailed`, leaving nothing behind."""
    check_repository_url(url, branch)
    git = find_git()
    if git is None:
        raise CloneFailed("git is not installed.")
    branch_options = ("--branch", branch, "--single-branch") if branch else ()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in {"HOME", "PATH", "LANG", "SSH_AUTH_SOCK", "TMPDIR", "USER"} or name.startswith("XDG_")
    }
    process = await asyncio.create_subprocess_exec(
        *(git, *GIT_OPTIONS, "clone", "--quiet", "--no-recurse-submodules", *branch_options, "--", url, str(target)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**environment, "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES), "LC_ALL": "C.UTF-8"},
    )
    try:
        async with asyncio.timeout(CLONE_SECONDS):
            _, error_output = await process.communicate()
    except (TimeoutError, asyncio.CancelledError) as problem:
        process.kill()
        await process.wait()
        _remove(target)
        if isinstance(problem, asyncio.CancelledError):
            raise
        raise CloneFailed(f"{url} was not cloned in {CLONE_SECONDS:.0f} s.") from None
    if process.returncode:
        _remove(target)
        lines = [line.strip() for line in error_output.decode("utf-8", "replace").splitlines() if line.strip()]
        raise CloneFailed(f"{url} can't be cloned: {lines[-1] if lines else 'git gave no reason'}.")


def _remove(target: Path) -> None:
    if target.exists():
        remove_tree(target)
