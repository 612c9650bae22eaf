"""The file that holds the tokens of a server: for its owner alone, and outside of every project."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from core.errors import ConfigError
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_directories import make_private_directory
from core.records import decode_json
from core.transports.http.access import Tokens
from core.user_dirs import get_state_dir

SHORTEST_TOKEN: Final = 32  # characters
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class ServedFile(Struct, frozen=True, kw_only=True):
    """The content of the file: where the server is (`url`, or `socket`: its path), its process, and its tokens."""

    read: str
    drive: str
    approve: str
    url: str = ""
    socket: str = ""
    pid: int = 0


def get_default_path() -> Path:
    """Return the place for the tokens of a server of this process."""
    return get_state_dir() / "serve" / f"{os.getpid()}.json"


def make_tokens() -> Tokens:
    """Return new tokens, 256 random bits each."""
    return Tokens(read=secrets.token_urlsafe(32), drive=secrets.token_urlsafe(32), approve=secrets.token_urlsafe(32))


def load_tokens(path: Path) -> Tokens:
    """Return the tokens of a file that the user keeps, new ones if there is none. Raises `ConfigError`."""
    try:
        file_stat = path.lstat()
    except FileNotFoundError:
        return make_tokens()
    if not stat.S_ISREG(file_stat.st_mode) or file_stat.st_uid != os.geteuid() or file_stat.st_mode & _OTHERS:
        raise ConfigError(f"{path} can be read by others.", hint=f"chmod 600 {path}", code="token_file_open")
    try:
        served_file = decode_json(path.read_bytes(), ServedFile)
    except (msgspec.DecodeError, OSError) as problem:
        raise ConfigError(f"{path} holds no tokens: {problem}.", hint="Remove it; new ones are made.") from problem
    tokens = Tokens(read=served_file.read, drive=served_file.drive, approve=served_file.approve)
    distinct_tokens = {tokens.read, tokens.drive, tokens.approve}
    if len(distinct_tokens) < 3 or any(len(token) < SHORTEST_TOKEN for token in distinct_tokens):
        hint = f"Three different ones of {SHORTEST_TOKEN} characters are needed; remove the file and new ones are made."
        raise ConfigError(f"the tokens in {path} are too weak.", hint=hint, code="tokens_weak")
    return tokens


def save_tokens(path: Path, tokens: Tokens, *, url: str = "", socket: str = "") -> None:
    """Write the file, 0600. Raises `ConfigError`."""
    served_file = ServedFile(
        read=tokens.read, drive=tokens.drive, approve=tokens.approve, url=url, socket=socket, pid=os.getpid()
    )
    try:
        make_private_directory(path.parent)
        replace_file(path, msgspec.json.format(msgspec.json.encode(served_file), indent=2) + b"\n")
    except OSError as problem:
        raise ConfigError(f"the tokens can't be written to {path}: {problem.strerror}.") from problem
