"""Transfer of agents' sessions: from a worker to the store, and from there to another worker or a user.

A session is its log and the files that the log names. The log is written last, so that whatever has arrived is a
consistent session. Layers (changes of commands outside of the review) are not transferred: they can be gigabytes, and
are not under review.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from core.background.records import BackgroundAgent
from core.background.store import AgentStore
from core.errors import StateError
from core.filesystem.atomic_write import PRIVATE, create_file, rename_over
from core.filesystem.open_beneath import DIRECTORY, open_beneath
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.ids import is_id
from core.protocol.events import SessionStarted
from core.sessions.record_format import decode_record, encode_record
from core.sessions.store import SessionStore

# Stored directories; of the files next to the log, `prefix*.json` are stored.
_STORED_DIRECTORIES: Final = ("blobs", "outputs")
MAX_FILE: Final = 64 << 20  # bytes


class SessionUpload:
    """The incremental upload of one session of an agent."""

    def __init__(self, store: AgentStore, session: Path) -> None:
        self._store, self._session = store, session
        self._sent: set[str] = set()
        self._offset = 0
        self._lock = asyncio.Lock()

    async def begin(self, offset: int) -> None:
        """Continue after the bytes of the log that the store has."""
        self._offset = offset

    async def sync(self, agent: BackgroundAgent) -> bool:
        """Upload new data. False: another worker has taken the agent over."""
        if not self._store.stores_sessions:
            return True
        async with self._lock:
            data = await asyncio.to_thread(_read_whole_lines, self._session / "log.jsonl", self._offset)
            for path in await asyncio.to_thread(_list_files, self._session):
                if path not in self._sent:
                    content = await asyncio.to_thread((self._session / path).read_bytes)
                    await self._store.store_file(agent.id, path, content)
                    self._sent.add(path)
            if data and not await self._store.store_log(agent, self._offset, data):
                return False
            self._offset += len(data)
            return True


def _read_whole_lines(log: Path, offset: int) -> bytes:
    with log.open("rb") as file:
        file.seek(offset)
        data = file.read()
    return data[: data.rfind(b"\n") + 1]


def _list_files(session: Path) -> list[str]:
    """List the files to store by relative path, without temporary files and links, which the program never creates."""
    paths = [path.name for path in session.glob("prefix*.json")]
    for name in _STORED_DIRECTORIES:
        for above, _, names in os.walk(session / name):
            directory = Path(above).relative_to(session)
            paths += [(directory / filename).as_posix() for filename in names]
    sizes = {path: (session / path).lstat() for path in paths if _is_stored_path(path)}
    return [path for path, stats in sizes.items() if stat.S_ISREG(stats.st_mode) and stats.st_size <= MAX_FILE]


def _is_stored_path(path: str) -> bool:
    """Return True for `prefix*.json` and for files of the stored directories, all of whose names are ids."""
    *above, name = path.split("/")
    is_prefix = not above and name.startswith("prefix") and name.endswith(".json")
    is_below = bool(above) and above[0] in _STORED_DIRECTORIES and not name.endswith(".tmp")
    return (is_prefix or is_below) and all(map(is_id, (*above, name)))


async def download_session(store: AgentStore, agent: BackgroundAgent, target: SessionStore) -> int:
    """Update an agent's session on this machine from the store; return the size of its log there in bytes. An outdated
    local copy is replaced. Raises `StateError`."""
    log = await store.read_log(agent.id)
    session_path = target.get_path(agent.session)
    if log and await asyncio.to_thread(_read_log, session_path) != log:
        await asyncio.to_thread(_remove_session, session_path)
        await _write_session(session_path, log, store.read_files(agent.id))
    return len(log)


def _read_log(session_path: Path) -> bytes:
    try:
        return (session_path / "log.jsonl").read_bytes()
    except OSError:
        return b""


def _remove_session(session_path: Path) -> None:
    if session_path.is_symlink():
        session_path.unlink()
    elif session_path.exists():
        remove_tree(session_path)


async def _write_session(session_path: Path, log: bytes, files: AsyncIterator[tuple[str, bytes]]) -> None:
    """Write a session, its log last. All files are opened relative to its directory and without following links."""
    try:
        directory = await asyncio.to_thread(_open_session, session_path)
        try:
            async for path, data in files:
                if not _is_stored_path(path):
                    raise StateError(f"{path[:80]!r} is not a path of a session file.")
                await asyncio.to_thread(_write, directory, path, data)
            await asyncio.to_thread(_write, directory, "log.jsonl", log)
        finally:
            os.close(directory)
    except OSError as problem:
        raise StateError(f"The session can't be written to {session_path}: {problem.strerror}.") from problem


def _open_session(session_path: Path) -> int:
    """Open, and create if needed, the directory of a session with its subdirectories; a link is an error."""
    make_private_directory(session_path.parent)
    with suppress(FileExistsError):
        session_path.mkdir(mode=0o700)
    directory = os.open(session_path, DIRECTORY | os.O_NOFOLLOW)
    for name in _STORED_DIRECTORIES:
        os.close(_open_directory(directory, name))
    return directory


def _write(session: int, path: str, data: bytes) -> None:
    above, _, name = path.rpartition("/")
    directory = _open_directory(session, above)
    try:
        draft = b".%s.tmp" % secrets.token_hex(8).encode()
        with create_file(directory, draft, PRIVATE, durable=False) as file:
            file.write(data)
        rename_over(directory, draft, os.fsencode(name), durable=False)
    finally:
        os.close(directory)


def _open_directory(session: int, path: str) -> int:
    """Open a directory below a session's, creating it if needed."""
    parts = path.split("/") if path else []
    for end in range(1, len(parts) + 1):
        above = open_beneath(session, os.fsencode("/".join(parts[: end - 1])), DIRECTORY)
        try:
            with suppress(FileExistsError):
                os.mkdir(parts[end - 1], 0o700, dir_fd=above)
        finally:
            os.close(above)
    return open_beneath(session, os.fsencode(path), DIRECTORY)


async def import_session(source: Path, target: SessionStore) -> str:
    """Copy a session into the store of a workspace, as one of that workspace; return its id. Raises `StateError`: it
    exists already, or can't be read or written."""
    session_path = target.get_path(source.name)
    if (session_path / "log.jsonl").exists():
        raise StateError(f"the session {source.name} is already in this workspace.", code="session_exists")
    try:
        lines = await asyncio.to_thread(_read_whole_lines, source / "log.jsonl", 0)
        first, rest = lines.split(b"\n", 1)
    except (OSError, ValueError) as problem:
        raise StateError(f"the session {source.name} can't be read: {problem}.") from problem
    envelope = decode_record(first)
    if envelope is None or not isinstance(envelope.event, SessionStarted):
        raise StateError(f"the log of {source.name} does not start like a session log.")
    start_event = replace(envelope.event, workspace=str(target.workspace))
    if not target.sessions_path.exists():
        target.create().close()
    await _write_session(session_path, encode_record(replace(envelope, event=start_event)) + rest, _read_files(source))
    return source.name


async def _read_files(session: Path) -> AsyncIterator[tuple[str, bytes]]:
    for path in await asyncio.to_thread(_list_files, session):
        yield path, await asyncio.to_thread((session / path).read_bytes)
