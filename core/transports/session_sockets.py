"""The Unix sockets of open sessions: their paths, the checks of their owner, and connecting to one.

A socket is named after its session's id. Only sockets that belong to this user, in directories that nobody else can
open, are used. The socket of a killed process is removed by the next engine that listens.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.errors import StateError
from core.filesystem.private_files import make_private_directory
from core.sessions.store import is_session_id
from core.transports.line_client import LINE_LIMIT, LineClient
from core.user_dirs import list_socket_dirs

LONGEST_PATH: Final = 100  # bytes; kernels accept 108 (Linux) and 104 (macOS), with the terminating zero
CONNECT_LIMIT: Final = 2.0
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred
_DARWIN_USER: Final = struct.Struct("2I")  # version and user, with which a struct xucred begins
_LOCAL_PEERCRED: Final = (0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED, the size of a struct xucred


def choose_socket_path(session: str) -> Path:
    """Return the path to listen on for a session; creates its directory if need be. Raises `StateError`."""
    problems = []
    for directory in list_socket_dirs():
        path = directory / session
        if len(os.fsencode(path)) > LONGEST_PATH:
            problems.append(f"{directory}: its path is too long for a socket")
            continue
        try:
            make_private_directory(directory)
        except OSError as problem:
            problems.append(f"{directory}: {problem.strerror}")
            continue
        if not (problem_of_it := _explain_unsafe(directory)):
            return path
        problems.append(problem_of_it)
    raise StateError(
        f"this session can't be reached: no directory is suitable ({'; '.join(problems)}).",
        hint="Set XDG_RUNTIME_DIR to a directory that only you can open.",
        code="socket_impossible",
    )


def _explain_unsafe(directory: Path) -> str | None:
    """Return why a directory is not this user's alone; None: it is."""
    stats = directory.lstat()
    if not stat.S_ISDIR(stats.st_mode):
        return f"{directory} is not a directory"
    if stats.st_uid != os.geteuid():
        return f"{directory} belongs to another user"
    return f"{directory} is open to others" if stat.S_IMODE(stats.st_mode) & 0o077 else None


def sweep_sockets(directory: Path) -> None:
    """Remove the sockets of processes that are gone."""
    for path in _list_sockets(directory):
        with suppress(OSError):
            if not is_answered(path):
                path.unlink()


def find_socket(session: str) -> Path | None:
    """Return the socket of a session; None: no engine listens for it."""
    if not is_session_id(session):
        return None
    sockets = (path for directory in list_socket_dirs() for path in _list_sockets(directory) if path.name == session)
    return next(filter(is_answered, sockets), None)


def list_reachable() -> list[str]:
    """Return the ids of the sessions whose engine answers at their socket, newest first."""
    session_ids = {
        path.name for directory in list_socket_dirs() for path in _list_sockets(directory) if is_answered(path)
    }
    return sorted(session_ids, reverse=True)


def _list_sockets(directory: Path) -> Iterator[Path]:
    """Iterate over this user's sockets in a directory; an unsafe directory counts as empty."""
    try:
        if _explain_unsafe(directory):
            return
        paths = list(directory.iterdir())
    except OSError:
        return
    for path in paths:
        with suppress(OSError):
            stats = path.lstat()
            if stat.S_ISSOCK(stats.st_mode) and stats.st_uid == os.geteuid() and is_session_id(path.name):
                yield path


def is_answered(path: Path) -> bool:
    """Return True if a process of this user listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(CONNECT_LIMIT)
        try:
            trial.connect(str(path))
            return is_own_peer(trial)
        except OSError:
            return False


def is_own_peer(connection: socket.socket) -> bool:
    """Return True if the process at the other end is this user's, as far as the system reports it."""
    if sys.platform == "darwin":
        with suppress(OSError):
            return bool(_DARWIN_USER.unpack_from(connection.getsockopt(*_LOCAL_PEERCRED))[1] == os.geteuid())
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the permissions of the directory exclude others
    _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(user == os.geteuid())


async def connect_to_session(session: str) -> LineClient | None:
    """Connect to the engine that has a session open; None: no engine can be reached."""
    path = await asyncio.to_thread(find_socket, session)
    return None if path is None else await _connect(path)


async def _connect(path: Path) -> LineClient | None:
    try:
        reader, writer = await asyncio.open_unix_connection(str(path), limit=LINE_LIMIT)
    except OSError:
        return None
    if not is_own_peer(writer.get_extra_info("socket")):
        writer.close()
        return None
    return LineClient(reader, writer)
