"""The configuration of one server: its entry in either dialect, its variables, and the hash that a consent is bound to.

An entry is data. Variables of the user's environment are expanded in `env`, `url` and `headers` only, because every
process of the machine can read command lines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from core.errors import ConfigError, WebFailed
from core.patterns import compile_lazily
from core.records import decode_json
from core.sandbox.plain_text import strip_escapes
from core.text.json_repairs import to_strict_json
from core.web.address import parse_address

NAME: Final = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
DEFAULT_SECONDS: Final = 300.0  # between two reports of progress
_VARIABLE: Final = compile_lazily(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_MASKED: Final = "(as in the file)"
_PUBLIC_VARIABLES: Final = frozenset({"HOME", "USER", "LOGNAME", "LANG", "SHELL", "TMPDIR"})
_FOLDERS: Final = frozenset(
    {"userHome", "workspaceFolder", "workspaceFolderBasename", "CLAUDE_PROJECT_DIR", "pathSeparator"}
)
_SCOPE: Final = compile_lazily(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749, 3.3
ONLY_TOOLS, WITHOUT_TOOLS = "enabled_tools", "disabled_tools"  # as Codex names them
_LOCAL_KEYS: Final = frozenset(
    {"type", "command", "args", "env", "envFile", "timeout", "description", ONLY_TOOLS, WITHOUT_TOOLS}
)
_KEYS: Final = _LOCAL_KEYS | {"url", "headers", "headersHelper", "oauth", "auth"}
_OAUTH_KEYS: Final = frozenset({"clientId", "clientSecret", "clientMetadataUrl", "callbackPort", "scopes", "scope"})
_AUTH_KEYS: Final = frozenset({"CLIENT_ID", "CLIENT_SECRET", "scopes"})
_MAX_NAMED: Final = 5
_VARIABLE_NAME: Final = compile_lazily(r"[A-Za-z_][A-Za-z0-9_]*")
Transport = Literal["stdio", "http", "sse"]


class OAuthOptions(Struct, frozen=True, kw_only=True):
    """The OAuth client of this program at the issuer of a remote server. `client_id` "": dynamic registration;
    `metadata_url`: a client metadata document of the user's; `port`: of the redirect address, 0 = any free one;
    `scopes`: the requested ones, () = those that the server names."""

    client_id: str = ""
    client_secret: str = ""
    metadata_url: str = ""
    port: int = 0
    scopes: tuple[str, ...] = ()

    def list_lines(self) -> list[str]:
        """Return the options that are set, one per line."""
        fields = (
            ("client", self.client_id),
            ("secret", self.client_secret),
            ("document", self.metadata_url),
            ("port", str(self.port or "")),
            ("rights", " ".join(self.scopes)),
        )
        return [f"login {name}: {value}" for name, value in fields if value]


class ServerConfig(Struct, frozen=True, kw_only=True):
    """A configured server before the expansion of its variables. `source`: its file as the user knows it.

    `command`: program and arguments, () = a remote server at `url`; `headers_command`: a shell command that prints more
    headers, "" = none. `seconds`: the longest silence of a call. `is_own`: a built-in server, which may use the
    session's network, outlives changes of the project, and whose writes are dropped. `is_offered`: the user wrote it
    for another program, so that it needs their yes. `folder`: the plug-in that it belongs to and may read, "" = none.
    `only_tools`: its tools that may be used, None = all; `without_tools`: those that may not.
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
    headers_command: str = ""
    oauth: OAuthOptions = OAuthOptions()
    seconds: float = DEFAULT_SECONDS
    is_own: bool = False
    is_offered: bool = False
    folder: str = ""
    only_tools: tuple[str, ...] | None = None
    without_tools: tuple[str, ...] = ()

    def offers(self, tool: str) -> bool:
        """True if the entry lets a tool of the server be used."""
        return (self.only_tools is None or tool in self.only_tools) and tool not in self.without_tools

    @property
    def is_remote(self) -> bool:
        """True if it is reached over HTTP, where no sandbox contains it."""
        return not self.command

    def compute_hash(self) -> str:
        """Return the digest of everything that determines what is run, reached and sent."""
        fields = (self.transport, self.command, sorted(self.env.items()), self.env_file, self.url)
        lines = (*self._list_headers_command(), *self.oauth.list_lines(), *self._list_tools())
        data = msgspec.json.encode((*fields, sorted(self.headers.items()), *lines))
        return hashlib.sha256(data).hexdigest()

    def describe(self) -> str:
        """Return the text that the user consents to: all fields of the hash, one per line."""
        lines = [f"command: {msgspec.json.encode(self.command).decode()}"] if self.command else [f"url: {self.url}"]
        lines += [f"env {name}: {value}" for name, value in sorted(self.env.items())]
        lines += [f"header {name}: {value}" for name, value in sorted(self.headers.items())]
        lines += [*self._list_headers_command(), *self._list_tools()]
        lines += [f"env file: {self.env_file}"] if self.env_file else []
        lines += [f"login secret: {_MASKED}" if _is_plain_secret(line) else line for line in self.oauth.list_lines()]
        return "\n".join(lines)

    def _list_headers_command(self) -> list[str]:
        return [f"command for headers: {self.headers_command}"] if self.headers_command else []

    def _list_tools(self) -> list[str]:
        lines = [f"only its tools: {', '.join(self.only_tools)}"] if self.only_tools is not None else []
        return lines + ([f"without its tools: {', '.join(self.without_tools)}"] if self.without_tools else [])

    def list_variables(self) -> tuple[str, ...]:
        """Return the sorted names of the user's variables that the server would get."""
        texts = [*self.command, *self.env.values(), self.url, *self.headers.values(), *self.oauth.list_lines()]
        return tuple(
            sorted(
                {match["name"] for text in texts for match in _VARIABLE.finditer(text)} - _PUBLIC_VARIABLES - _FOLDERS
            )
        )


def _is_plain_secret(line: str) -> bool:
    """True if a line of the login options contains the secret itself instead of a variable."""
    return line.startswith("login secret: ") and _VARIABLE.search(line) is None


class ServerProblem(Struct, frozen=True):
    """An invalid or partly unsupported entry: its name, its file, and the problem."""

    name: str
    source: str
    reason: str


def parse_servers(
    text: bytes, source: str, *, is_project: bool
) -> tuple[tuple[ServerConfig, ...], tuple[ServerProblem, ...]]:
    """Parse a file of the shape `{"mcpServers": {name: entry}}`. Raises `ConfigError` for any other shape."""
    try:
        document = decode_json(to_strict_json(text))
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise ConfigError(
            f"{source} is not valid JSON: {problem}.", hint="Fix it; none of its servers is loaded."
        ) from None
    entries = document.get("mcpServers", {}) if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        raise ConfigError(
            f'{source} has no object "mcpServers".', hint='Write {"mcpServers": {"NAME": {"command": …}}}.'
        )
    return parse_entries(entries, source, is_project=is_project)


def parse_entries(
    entries: Mapping[str, Any], source: str, *, is_project: bool
) -> tuple[tuple[ServerConfig, ...], tuple[ServerProblem, ...]]:
    """Parse entries by name; invalid ones become problems."""
    servers, problems = [], []
    for name, entry in entries.items():
        try:
            servers.append(_parse_entry(name, entry, source, is_project=is_project))
            problems += [ServerProblem(name, source, reason) for reason in _list_unsupported(entry)]
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
        raise ConfigError('it needs either "command" or "url", as text')
    seconds = entry.get("timeout", DEFAULT_SECONDS * 1000)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 1000:
        raise ConfigError('"timeout" has to be milliseconds, 1000 or more')
    arguments = entry.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise ConfigError('"args" has to be a list of texts')
    return ServerConfig(
        name=name,
        source=source,
        is_project=is_project,
        transport=_parse_transport(entry.get("type"), url if isinstance(url, str) else None),
        command=(command, *arguments) if isinstance(command, str) else (),
        env=_parse_texts(entry, "env"),
        env_file=str(entry.get("envFile") or ""),
        url=url if isinstance(url, str) else "",
        headers=_parse_texts(entry, "headers"),
        headers_command=_parse_headers_command(entry),
        oauth=_parse_oauth(entry),
        seconds=seconds / 1000,
        only_tools=_parse_names(entry, ONLY_TOOLS),
        without_tools=_parse_names(entry, WITHOUT_TOOLS) or (),
    )


def _parse_names(entry: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    names = entry.get(key)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f'"{key}" has to be a list of texts')
    return tuple(names)


def _list_unsupported(entry: Mapping[str, Any]) -> list[str]:
    """List the keys of an entry that have no effect."""
    unsupported_keys = [key for key in entry if key not in (_KEYS if "url" in entry else _LOCAL_KEYS)]
    unsupported_keys += [f"oauth.{key}" for key in entry.get("oauth") or {} if key not in _OAUTH_KEYS]
    unsupported_keys += [f"auth.{key}" for key in entry.get("auth") or {} if key not in _AUTH_KEYS]
    if not unsupported_keys:
        return []
    names = ", ".join(f'"{strip_escapes(str(key))[:40]}"' for key in unsupported_keys[:_MAX_NAMED])
    verb = "is" if len(unsupported_keys) == 1 else "are"
    return [f"the server is used, but {names} {verb} not supported"]


def _parse_headers_command(entry: Mapping[str, Any]) -> str:
    command = entry.get("headersHelper") or ""
    if not isinstance(command, str):
        raise ConfigError('"headersHelper" has to be a command, a text')
    if command and not isinstance(entry.get("url"), str):
        raise ConfigError('"headersHelper" does not go with a command: only a "url" is sent headers')
    return command


def _parse_transport(kind: Any, url: str | None) -> Transport:
    transports: dict[Any, Transport] = {
        "http": "http",
        "streamable-http": "http",
        "streamableHttp": "http",
        "sse": "sse",
    }
    if url is None:
        if kind not in {None, "stdio"}:
            raise ConfigError('its "type" does not go with a command: leave it out, or write "stdio"')
        return "stdio"
    if kind is not None and kind not in transports:
        is_socket = kind in {"ws", "websocket"}
        raise ConfigError(f'{"WebSocket is not supported: " if is_socket else ""}its "type" has to be "http" or "sse"')
    return transports.get(kind, "sse" if url.rstrip("/").endswith("/sse") else "http")


def _parse_oauth(entry: Mapping[str, Any]) -> OAuthOptions:
    """Parse `oauth` as Claude Code writes it, or `auth` as Cursor does."""
    for key in ("oauth", "auth"):
        if not isinstance(entry.get(key) or {}, dict):
            raise ConfigError(f'"{key}" has to be an object')
    options, other = entry.get("oauth") or {}, entry.get("auth") or {}
    port = options.get("callbackPort") or 0
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
        raise ConfigError('"callbackPort" has to be the number of a port')
    return OAuthOptions(
        client_id=str(options.get("clientId") or other.get("CLIENT_ID") or ""),
        client_secret=str(options.get("clientSecret") or other.get("CLIENT_SECRET") or ""),
        metadata_url=str(options.get("clientMetadataUrl") or ""),
        port=port,
        scopes=_parse_scopes(options.get("scopes") or options.get("scope") or other.get("scopes") or ()),
    )


def _parse_scopes(raw_scopes: Any) -> tuple[str, ...]:
    """Parse a text "a b", as Claude Code writes it, or a list, as Cursor does."""
    scopes = raw_scopes.split() if isinstance(raw_scopes, str) else raw_scopes
    if not isinstance(scopes, list | tuple) or not all(isinstance(e, str) and _SCOPE.fullmatch(e) for e in scopes):
        raise ConfigError('"scopes" has to be a text such as "read write", or a list of texts without spaces')
    return tuple(dict.fromkeys(scopes))


def _parse_texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    texts = entry.get(key) or {}
    if not isinstance(texts, dict) or not all(isinstance(text, str | int | float) for text in texts.values()):
        raise ConfigError(f'"{key}" has to be an object of texts')
    return {name: str(value) for name, value in texts.items()}


class Variables(Struct, frozen=True):
    """The values of variables: folders, and the user's `environment`."""

    workspace: Path
    environment: Mapping[str, str]

    def expand(self, text: str, *, is_public: bool = False) -> str:
        """Replace the variables of a text. `is_public`: other processes can read the result, so only harmless variables
        of the environment are allowed. Raises `ConfigError` for a variable without a value."""
        for name, value in self._list_folders():
            text = text.replace(name, value)
        return _VARIABLE.sub(lambda match: self._find_value(match, is_public=is_public), text)

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

    def _find_value(self, match: re.Match[str], *, is_public: bool) -> str:
        name = match["name"]
        if is_public and name not in _PUBLIC_VARIABLES:
            raise ConfigError(
                f"{match[0]} is in its command line, which all processes of this machine can read",
                hint='Pass it to the server in "env".',
            )
        value = self.environment.get(name) or match["default"]
        if value is None:
            raise ConfigError(f"the variable {name} is not set", hint=f"Set it, or write ${{{name}:-default}}.")
        return value


def is_variable_name(text: str) -> bool:
    """True if an environment variable can have this name."""
    return _VARIABLE_NAME.fullmatch(text) is not None


def parse_env_file(text: str) -> dict[str, str]:
    """Parse lines of the shape NAME=value, with optional quotes, `export` and comments."""
    variables = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and is_variable_name(name.strip()):
            value = value.strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            variables[name.strip()] = value[1:-1] if is_quoted else value.partition(" #")[0].rstrip()
    return variables


def find_remote_host(config: ServerConfig, variables: Variables) -> str:
    """Return the host of a remote server as permission rules name it, "?" if its address is invalid; "" for a local
    server."""
    if not config.is_remote:
        return ""
    with suppress(WebFailed, ConfigError):
        return parse_address(variables.expand(config.url)).host
    return "?"
