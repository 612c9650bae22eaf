"""Credentials in git's own files: in addresses of remotes, in headers, in files of its helpers.

The model sees what `git remote -v` prints and may read `.git/config`; a token in there is as secret as the key of a
provider. So its value is made known to the masks before a command begins and when a session is opened. In the box the
files stay as they are: git works with them, and what a command prints is masked.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from core.git.layout import find_repository, read_small_file
from core.secrets import register_credential

MAX_SUBMODULES: Final = 200  # whose configurations are read
_MAX_BYTES: Final = 256 * 1024
_MIN_USER: Final = 12  # characters of a name without password, from which on it is a token: ghp_…, a project's key
_MIN_VALUE: Final = 8
_LONG: Final = 20
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?P<user>[^\s/:@'\"]*)(?::(?P<password>[^\s/@'\"]*))?@")
_HEADER: Final = re.compile(r"extraheader\s*=\s*[\"']?[^:\n]+:\s*(?P<value>[^\n\"']+)", re.IGNORECASE)
_SETTING: Final = re.compile(
    r"^\s*[\w.-]*(?:password|passwd|token|secret|smtppass|oauth\w*)\s*=\s*[\"']?(?P<value>[^\s\"']+)", re.I | re.M
)
_NETRC: Final = re.compile(r"\bpassword\s+(?P<value>\S+)")
_NO_PASSWORDS: Final = frozenset({"", "x-oauth-basic", "oauth2", "x-token-auth"})  # beside a token that is the name
_OWN_FILES: Final = ("config", "config.worktree", "FETCH_HEAD", "logs/HEAD")
_USERS_FILES: Final = ("~/.gitconfig", "~/.git-credentials", "~/.config/git/config", "~/.config/git/credentials")
_NETRC_FILES: Final = ("~/.netrc", "~/_netrc")


def register_git_credentials(directory: Path) -> None:
    """Let every mask know the credentials in the files of the repository of a directory, of its submodules and
    worktrees, and in those of the user. A file that can't be read has none."""
    for text in _read_texts(directory):
        for value in find_credentials(text):
            register_credential(value)
    for name in _NETRC_FILES:
        for match in _NETRC.finditer(_read(Path(name).expanduser())):
            register_credential(match["value"])


def find_credentials(text: str) -> set[str]:
    """Return the secret values in the text of a configuration, of a store of credentials or of a log of git."""
    values = set[str]()
    for match in _ADDRESS.finditer(text):
        user, password = match["user"], match["password"] or ""
        if password not in _NO_PASSWORDS:
            values.add(password)
        elif _looks_like_token(user):
            values.add(user)
    for match in _HEADER.finditer(text):
        values |= _split_header(match["value"].strip())
    values |= {match["value"] for match in _SETTING.finditer(text)}
    values |= {unquote(value) for value in values}
    return {value for value in values if _is_distinct(value)}


def _is_distinct(value: str) -> bool:
    """Return True unless a value is an ordinary word, which can't be masked wherever it stands."""
    if len(value) < _MIN_VALUE or value.startswith(("$", "%(")):
        return False
    return len(value) >= _LONG or not value.isalpha() or value not in {value.lower(), value.upper(), value.title()}


def _looks_like_token(user: str) -> bool:
    return len(user) >= _MIN_USER and any(each.isdigit() for each in user)


def _split_header(value: str) -> set[str]:
    """Return the credential of a header's value, `basic …` also as the password that it encodes."""
    scheme, _, rest = value.partition(" ")
    credential = rest.strip() or scheme
    if scheme.lower() != "basic":
        return {credential}
    password = ""
    with suppress(binascii.Error, ValueError):
        password = base64.b64decode(credential, validate=True).decode().partition(":")[2]
    return {credential, password}


def _read_texts(directory: Path) -> Iterator[str]:
    for name in _USERS_FILES:
        yield _read(Path(name).expanduser())
    layout = find_repository(directory)
    if layout is None:
        return
    yield _read(layout.root / ".gitmodules")
    for place in dict.fromkeys((layout.common, layout.own, *_list_submodules(layout.common / "modules"))):
        for name in _OWN_FILES:
            yield _read(place / name)
    for name in _list_names(layout.common / "worktrees"):
        yield _read(layout.common / "worktrees" / name / "config.worktree")


def _list_submodules(top: Path) -> list[Path]:
    """Return git's directories of submodules, whose names may have slashes and which have submodules themselves."""
    places, waiting = list[Path](), [top]
    while waiting and len(places) < MAX_SUBMODULES:
        here = waiting.pop(0)
        names = _list_names(here)
        if "HEAD" in names:
            places.append(here)
            waiting += [here / "modules"] if "modules" in names else []
        else:
            waiting += [here / name for name in names][:MAX_SUBMODULES]
    return places


def _list_names(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(each.name for each in entries)
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return read_small_file(path, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
