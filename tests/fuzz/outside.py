"""What the user does with another program."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from tests.fuzz.actions import Outside


def edit(path: Path, action: Outside) -> None:
    """Nothing, where a directory stands or a file is in the way."""
    with suppress(OSError):
        _edit(path, action)


def _edit(path: Path, action: Outside) -> None:
    match action.how:
        case "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(action.text)
        case "append":
            with path.open("ab") as file:
                file.write(action.text.encode())
        case "replace":
            lines = path.read_bytes().splitlines(keepends=True)
            if lines:
                lines[action.line % len(lines)] = action.text.encode()
            path.write_bytes(b"".join(lines))
        case "delete":
            path.unlink()
        case "chmod":
            path.chmod(0o755 if not path.stat().st_mode & 0o100 else 0o644)


def kill_sleeper() -> None:
    """Kill the processes that a command is waiting for."""
    for process in psutil.Process().children(recursive=True):
        try:
            if "sleep" in process.cmdline()[:1]:
                process.kill()
        except psutil.Error:
            continue
