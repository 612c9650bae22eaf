"""Credentials in git's own files: in addresses of remotes, in headers, in files of its helpers.

The model sees the output of `git remote -v` and may read `.git/config`; a token in there is as secret as the key of a
provider. So the masks learn its value before a command begins, when a session is opened and when a file of git's is
read. Included configurations, the stores and cookies that a configuration names, and repositories inside the project
that a command names count, too. In the sandbox the files are unchanged, so that git works with them, and the output of
commands is masked.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote

from core.git.layout import find_repository, read_small_file
from core.git.nested_repositories import find_nested_repositories
from core.patterns import compile_lazily
from core.secrets import register_credential

MAX_SUBMODULES: Final = 200  # submodules whose configurations are read
_MAX_BYTES: Final = 256 * 1024
_MIN_TOKEN: Final = 12  # characters from which on a name without password counts as a token: ghp_…, a project's key
_MIN_VALUE: Final = 8  # characters of a secret
_LONG_VALUE: Final = 20  # characters of a value that is never an ordinary word
_ADDRESS: Final = compile_lazily(r"[A-Za-z][A-Za-z0-9+.-]*://(?P<user>[^\s/:@'\"]*)(?::(?P<password>[^\s/@'\"]*))?@")
_HEADER: Final = compile_lazily(r"extraheader\s*=\s*[\"']?[^:\n]+:\s*(?P<value>[^\n\"']+)", re.IGNORECASE)
_SETTING: Final = compile_lazily(
    r"(?<![\w$])[\w.-]*(?:pass|password|passwd|passphrase|token|secret|smtppass|oauth\w*)\s*=\s*"
    r"[\\\"']*(?P<value>[^\s\\\"';)]+)",
    re.I,
)
# Arguments of a command in a setting, such as `sshpass -p …` or `--token …`.
_OPTION: Final = compile_lazily(
    r"(?:\bsshpass\s+-p\s*|--(?:password|passwd|passphrase|token|secret)[= ])[\\\"']*(?P<value>[^\s\\\"';)]+)", re.I
)
_NAMED: Final = compile_lazily(
    r"^\s*(?:path|cookiefile)\s*=\s*[\"']?(?P<value>[^\n\"']+)|\bstore\s+--file[= ]\s*(?P<store>[^\s\\\"']+)",
    re.I | re.M,
)
_COOKIE: Final = compile_lazily(r"^(?:[^\t\n]*\t){6}(?P<value>\S+)[ \r]*$", re.M)
_NETRC: Final = compile_lazily(r"\bpassword\s+(?P<value>\S+)")
_NO_PASSWORDS: Final = frozenset(
    {"", "x-oauth-basic", "oauth2", "x-token-auth"}
)  # fillers next to a token that is the name
_OWN_FILES: Final = ("config", "config.worktree", "credentials", "FETCH_HEAD", "logs/HEAD")
_USERS_FILES: Final = ("~/.gitconfig", "~/.git-credentials")
_USERS_XDG_FILES: Final = ("git/config", "git/credentials")
_MAX_INCLUDES: Final = 50  # files that the settings of one repository name
_NETRC_FILES: Final = ("~/.netrc", "~/_netrc")


def register_git_credentials(directory: Path) -> None:
    """Register the credentials in the files of a directory's repository, of its submodules and worktrees, in those of
    the user and in the files that these name. A file that can't be read has none."""
    paths = list(dict.fromkeys((*_list_users_files(), *_list_files(directory))))
    limit = len(paths) + _MAX_INCLUDES
    for path in paths:  # the list grows while it is read: a file that is included includes others
        text = _read(path)
        register_credentials_of(text)
        paths += [other for other in _find_named(text, path) if other not in paths][: limit - len(paths)]
    for name in _NETRC_FILES:
        for match in _NETRC.finditer(_read(Path(name).expanduser())):
            register_credential(match["value"])


def register_command_credentials(root: Path, directory: str, command: str) -> None:
    """Register the credentials that a command may print: of the project's repository, and of those inside the project
    that the command starts in or names. `directory`: relative to `root`."""
    register_git_credentials(root)
    for nested_repository in find_nested_repositories(root, directory, command)[:MAX_SUBMODULES]:
        register_git_credentials(root / nested_repository)


def register_credentials_of(text: str) -> None:
    """Register the credentials in the text of a file of git's."""
    for value in find_credentials(text):
        register_credential(value)


def register_read_repository(root: Path, path: str) -> None:
    """Register the credentials of the repository whose `.git` directory contains a path; a path outside of one has
    none."""
    parts = PurePosixPath(path).parts
    if ".git" in parts:
        register_git_credentials(root.joinpath(*parts[: parts.index(".git")]))


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
    for pattern in (_SETTING, _OPTION, _COOKIE):
        values |= {match["value"] for match in pattern.finditer(text)}
    values |= {unquote(value) for value in values}
    return {value for value in values if _is_distinct(value)}


def _is_distinct(value: str) -> bool:
    """True unless a value is an ordinary word, which can't be masked everywhere."""
    if len(value) < _MIN_VALUE or value.startswith(("$", "%(")):
        return False
    return (
        len(value) >= _LONG_VALUE or not value.isalpha() or value not in {value.lower(), value.upper(), value.title()}
    )


def _looks_like_token(user: str) -> bool:
    return len(user) >= _MIN_TOKEN and any(character.isdigit() for character in user)


def _split_header(value: str) -> set[str]:
    """Return the credential in a header's value; of `basic …` also the encoded password."""
    scheme, _, rest = value.partition(" ")
    credential = rest.strip() or scheme
    if scheme.lower() != "basic":
        return {credential}
    password = ""
    with suppress(binascii.Error, ValueError):
        password = base64.b64decode(credential, validate=True).decode().partition(":")[2]
    return {credential, password}


def _list_users_files() -> Iterator[Path]:
    yield from (Path(name).expanduser() for name in _USERS_FILES)
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    yield from (settings / name for name in _USERS_XDG_FILES)
    if global_config := os.environ.get("GIT_CONFIG_GLOBAL"):
        yield Path(global_config)


def _list_files(directory: Path) -> Iterator[Path]:
    layout = find_repository(directory)
    if layout is None:
        return
    yield layout.root / ".gitmodules"
    for git_directory in dict.fromkeys((layout.common, layout.own, *_list_submodules(layout.common / "modules"))):
        yield from (git_directory / name for name in _OWN_FILES)
    for name in _list_names(layout.common / "worktrees"):
        yield layout.common / "worktrees" / name / "config.worktree"


def _find_named(text: str, path: Path) -> Iterator[Path]:
    """Yield the files that a configuration includes, and the stores and cookies that it names."""
    for match in _NAMED.finditer(text):
        name = (match["value"] or match["store"]).strip()
        with suppress(RuntimeError):  # a user without a home
            yield path.parent / Path(name).expanduser()


def _list_submodules(top: Path) -> list[Path]:
    """Return git's directories of submodules, whose names may have slashes and which have submodules themselves."""
    places, waiting = list[Path](), [top]
    while waiting and len(places) < MAX_SUBMODULES:
        directory = waiting.pop(0)
        names = _list_names(directory)
        if "HEAD" in names:
            places.append(directory)
            waiting += [directory / "modules"] if "modules" in names else []
        else:
            waiting += [directory / name for name in names][:MAX_SUBMODULES]
    return places


def _list_names(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries)
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return read_small_file(path, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
