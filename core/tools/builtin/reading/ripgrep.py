"""The ripgrep program: located without trusting the project, run without its configuration, read with limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from core.errors import ToolFailed, ToolInputInvalid
from core.filesystem.name_spelling import resolve_spelled
from core.workspace import IgnoreRules, Workspace

_SCOPE = ("--hidden", "--glob=!.git", "--no-require-git", "--no-ignore-global", "--no-messages")
MINIMAL_ENV = {"PATH": os.defpath, "LANG": "C.UTF-8"}
NO_IGNORE = "--no-ignore"
_RULES = frozenset({".gitignore", ".ignore", ".rgignore"})
_PROMPT = 1.0  # Seconds after which a slow run is diagnosed.
_MOST = 500_000  # The limit for names that the diagnosis looks at.
_MAX_OUTPUT = 4_000_000
_PIECE = 65_536


class RipgrepOutput(Struct, frozen=True, kw_only=True):
    """The output of a run. `cut`: stopped at the byte limit; `timed_out`: stopped by time. Both leave the matches so
    far."""

    data: bytes
    cut: bool = False
    timed_out: bool = False


@cache
def find_program() -> str:
    """Return the path of `rg`: next to the running Python, else on PATH (absolute entries, none in the current
    directory)."""
    entries = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry.startswith("/")]
    absolute = os.pathsep.join(str(entry) for entry in entries if not _is_in_workspace(entry))
    program = shutil.which("rg", path=str(Path(sys.executable).parent)) or shutil.which(
        "rg", path=absolute or os.defpath
    )
    if program is None:
        raise ToolFailed(
            "The search program ripgrep (rg) is not installed.",
            hint="Install the Python package ripgrep.",
            code="no_rg",
        )
    return program


def _is_in_workspace(entry: Path) -> bool:
    try:
        current_directory = Path.cwd()
    except OSError:  # The current directory was removed.
        return False
    return current_directory != Path("/") and resolve_spelled(entry).is_relative_to(resolve_spelled(current_directory))


def list_scope(root: str) -> tuple[str, ...]:
    """Return the options that select the files of a workspace to search: hidden ones, without .git.

    Its ignore files count wherever it is, and those above it if it is part of a repository (`IgnoreRules`).
    """
    rules = IgnoreRules(Workspace(Path(root)))
    return _SCOPE if rules.has_outer_rules() else (*_SCOPE, "--no-ignore-parent")


async def run_ripgrep(arguments: Sequence[str], *, cwd: str, time_limit: float) -> RipgrepOutput:
    """Run `rg` with these arguments. Raises `ToolInputInvalid` with its message for a bad pattern; no match is no
    error.

    It would wait for ever for an ignore file that is a named pipe; where there is one, ignore files are disregarded.
    """
    running = asyncio.ensure_future(_run(arguments, cwd, time_limit))
    try:
        await asyncio.wait([running], timeout=_PROMPT)
        if running.done() or not await asyncio.to_thread(has_unusual_rules, cwd):
            return await running
    finally:
        running.cancel()
    await asyncio.wait([running])
    return await _run([NO_IGNORE, *arguments], cwd, time_limit)


def has_unusual_rules(root: str) -> bool:
    """Return True if there is an ignore file below a directory that is not a regular file."""
    waiting, remaining = [root], _MOST
    outside = map(str, IgnoreRules(Workspace(Path(root))).list_outer_files())
    if any(map(_is_unusual, (f"{root}/.git/info/exclude", *outside))):
        return True
    while waiting and remaining > 0:
        try:
            with os.scandir(waiting.pop()) as entries:
                directory_entries = list(entries)
        except OSError:
            continue
        remaining -= len(directory_entries)
        if any(entry.name in _RULES and _is_unusual(entry.path) for entry in directory_entries):
            return True
        waiting += [
            entry.path for entry in directory_entries if entry.is_dir(follow_symlinks=False) and entry.name != ".git"
        ]
    return False


def _is_unusual(path: str) -> bool:
    try:
        return not stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return False


async def _run(arguments: Sequence[str], cwd: str, time_limit: float) -> RipgrepOutput:
    process = await asyncio.create_subprocess_exec(
        find_program(),
        "--no-config",
        "--color=never",
        *arguments,
        cwd=cwd,
        env=MINIMAL_ENV,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output = bytearray()
    timed_out = False
    try:
        async with asyncio.timeout(time_limit):
            errors = await _read_limited(process, output)
            await process.wait()
    except TimeoutError:
        timed_out, errors = True, b""
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode == 2 and errors and not output:
        raise _build_error(errors.decode("utf-8", "replace").strip())
    return RipgrepOutput(data=bytes(output), cut=len(output) >= _MAX_OUTPUT, timed_out=timed_out)


async def _read_limited(process: asyncio.subprocess.Process, output: bytearray) -> bytes:
    """Fill `output` up to the limit, and return the program's error messages."""
    assert process.stdout is not None
    assert process.stderr is not None
    complaint = asyncio.ensure_future(_read_errors(process.stderr))
    try:
        while len(output) < _MAX_OUTPUT and (piece := await process.stdout.read(_PIECE)):
            output += piece
        if len(output) >= _MAX_OUTPUT:
            process.kill()
        return await complaint
    finally:
        complaint.cancel()


async def _read_errors(errors: asyncio.StreamReader) -> bytes:
    """Return all error output up to a limit."""
    output = bytearray()
    while len(output) < _PIECE and (piece := await errors.read(_PIECE)):
        output += piece
    return bytes(output)


def _build_error(complaint: str) -> ToolInputInvalid:
    words = complaint.removeprefix("rg: ")[:1500]
    return ToolInputInvalid(
        f"ripgrep can't search for this: {words}",
        hint="Fix the pattern; put a backslash before special characters you mean literally.",
    )
