"""One configured server: its entry in a file of either dialect, its variables, and the hash that a yes is bound to.

An entry is read as data. Variables of the user's environment are only put into `env`, `url` and `headers`: what stands
in a command line can be read by every process of the machine (SAFETY I10).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from core.errors import ConfigError

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
DEFAULT_SECONDS: Final = 300.0  # without progress
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_HARMLESS: Final = frozenset({"HOME", "USER", "LOGNAME", "LANG", "SHELL", "TMPDIR"})
Transport = Literal["stdio", "http", "sse"]


class ServerConfig(Struct, frozen=True, kw_only=True):
    """A server as it is configured, its variables not yet replaced. `source`: the file as the user knows it.

    `command`: program and arguments, () = it is reached at `url`. `seconds`: that a call may be silent.
    """

    name: str
    source: str = ""
    is_project: bool = False
    transport: Transport = "stdio"
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    env_file: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    seconds: float = DEFAULT_SECONDS

    def compute_hash(self) -> str:
        """Return the digest of everything that decides what is run, reached and sent."""
        said = (self.transport, self.command, sorted(self.env.items()), self.env_file, self.url)
        data = msgspec.json.encode((*said, sorted(self.headers.items())))
        return hashlib.sha256(data).hexdigest()

    def describe(self) -> str:
        """Return what the user is shown before they say yes: all that the hash is of, one thing a line."""
        lines = [f"command: {msgspec.json.encode(self.command).decode()}"] if self.command else [f"url: {self.url}"]
        lines += [f"env {name}: {value}" for name, value in sorted(self.env.items())]
        lines += [f"header {name}: {value}" for name, value in sorted(self.headers.items())]
        lines += [f"env file: {self.env_file}"] if self.env_file else []
        return "\n".join(lines)

    def list_variables(self) -> tuple[str, ...]:
        """Return the names of the user's variables that it would be given, sorted."""
        texts = [*self.command, *self.env.values(), self.url, *self.headers.values()]
        return tuple(sorted({found["name"] for text in texts for found in _VARIABLE.finditer(text)} - _HARMLESS))


class ServerProblem(Struct, frozen=True):
    """An entry that makes no server, or not all of one: its name, the file, and what to mend."""

    name: str
    source: str
    reason: str


def parse_servers(
    text: bytes, source: str, *, is_project: bool
) -> tuple[tuple[ServerConfig, ...], tuple[ServerProblem, ...]]:
    """Parse a file of the shape `{"mcpServers": {name: entry}}`. Raises `ConfigError` if it is none at all."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise ConfigError(
            f"{source} is no valid JSON: {problem}.", hint="Mend it; none of its servers is known."
        ) from None
    entries = found.get("mcpServers", {}) if isinstance(found, dict) else None
    if not isinstance(entries, dict):
        raise ConfigError(
            f'{source} has no object "mcpServers".', hint='Write {"mcpServers": {"NAME": {"command": …}}}.'
        )
    return parse_entries(entries, source, is_project=is_project)


def parse_entries(
    entries: Mapping[str, Any], source: str, *, is_project: bool
) -> tuple[tuple[ServerConfig, ...], tuple[ServerProblem, ...]]:
    """Parse entries by name; what makes no server is told with its reason."""
    servers, problems = [], []
    for name, entry in entries.items():
        try:
            servers.append(_parse_entry(name, entry, source, is_project=is_project))
        except ConfigError as problem:
            problems.append(ServerProblem(str(name)[:64], source, problem.message))
    return tuple(servers), tuple(problems)


def _parse_entry(name: str, entry: Any, source: str, *, is_project: bool) -> ServerConfig:
    if not NAME.fullmatch(name):
        raise ConfigError("its name has to be 1 to 64 letters, digits, _ . or -, the first a letter or digit")
    if not isinstance(entry, dict):
        raise ConfigError("it has to be an object with a command or a url")
    command, url = entry.get("command"), entry.get("url")
    if isinstance(command, str) == isinstance(url, str):
        raise ConfigError('it has to have either "command" or "url", a text')
    seconds = entry.get("timeout", DEFAULT_SECONDS * 1000)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 1000:
        raise ConfigError('"timeout" has to be milliseconds, 1000 or more')
    arguments = entry.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise ConfigError('"args" has to be a list of texts')
    return ServerConfig(
        name=name,
        source=source,
        is_project=is_project,
        transport=_parse_transport(entry.get("type"), is_remote=isinstance(url, str)),
        command=(command, *arguments) if isinstance(command, str) else (),
        env=_parse_texts(entry, "env"),
        env_file=str(entry.get("envFile") or ""),
        url=url if isinstance(url, str) else "",
        headers=_parse_texts(entry, "headers"),
        seconds=seconds / 1000,
    )


def _parse_transport(kind: Any, *, is_remote: bool) -> Transport:
    known: dict[Any, Transport] = {"http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse"}
    if not is_remote:
        if kind not in {None, "stdio"}:
            raise ConfigError('its "type" does not go with a command: leave it out, or write "stdio"')
        return "stdio"
    if kind is not None and kind not in known:
        raise ConfigError('its "type" has to be "http" or "sse"')
    return known.get(kind, "http")


def _parse_texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    found = entry.get(key) or {}
    if not isinstance(found, dict) or not all(isinstance(each, str | int | float) for each in found.values()):
        raise ConfigError(f'"{key}" has to be an object of texts')
    return {name: str(value) for name, value in found.items()}


class Variables(Struct, frozen=True):
    """The values of variables: those of folders, and the user's `environment`."""

    workspace: Path
    environment: Mapping[str, str]

    def expand(self, text: str, *, is_public: bool = False) -> str:
        """Replace the variables of a text. `is_public`: other processes can read it, so that nothing of the user's
        environment is put into it. Raises `ConfigError` for one that has no value."""
        for name, value in self._list_folders():
            text = text.replace(name, value)
        return _VARIABLE.sub(lambda found: self._find_value(found, is_public=is_public), text)

    def expand_all(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Replace the variables of values by name."""
        return {name: self.expand(value) for name, value in texts.items()}

    def _list_folders(self) -> Iterable[tuple[str, str]]:
        home = self.environment.get("HOME") or str(Path.home())
        folder = str(self.workspace)
        return (
            ("${userHome}", home),
            ("${workspaceFolderBasename}", self.workspace.name),
            ("${workspaceFolder}", folder),
            ("${CLAUDE_PROJECT_DIR}", folder),
            ("${pathSeparator}", "/"),
            ("${/}", "/"),
        )

    def _find_value(self, found: re.Match[str], *, is_public: bool) -> str:
        name = found["name"]
        if is_public and name not in _HARMLESS:
            raise ConfigError(
                f"{found[0]} stands in its command line, which every process of this machine can read",
                hint='Give it to the server in "env".',
            )
        value = self.environment.get(name) or found["default"]
        if value is None:
            raise ConfigError(f"the variable {name} is not set", hint=f"Set it, or write ${{{name}:-default}}.")
        return value


def parse_env_file(text: str) -> dict[str, str]:
    """Parse lines of the shape NAME=value; quotes around a value, `export` and comments are understood."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.strip()):
            value = value.strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found[name.strip()] = value[1:-1] if is_quoted else value.partition(" #")[0].rstrip()
    return found
