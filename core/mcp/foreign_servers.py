"""MCP servers in the configuration of Codex and opencode, as entries of the usual form.

They were written for another program, so each is offered: it runs after a yes that shows its entry, with its `env`.
What an entry says beyond that form stays in it, so that it is named as having no effect.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core.errors import ConfigError
from core.mcp.server_config import ONLY_TOOLS
from core.patterns import compile_lazily
from core.records import decode_json, parse_toml
from core.text.json_repairs import decode_marked, to_strict_json

CODEX_FILE: Final = ".codex/config.toml"
OPENCODE_FILES: Final = ("opencode.json", "opencode.jsonc")
USER_FILES: Final = (CODEX_FILE, *(f".config/opencode/{name}" for name in OPENCODE_FILES))  # below the home
OFF: Final = "it is switched off there"
_VARIABLE: Final = compile_lazily(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_FILE: Final = compile_lazily(r"\{file:[^}]*\}")
# Keys without an effect on which program runs and what it may do; a start has a limit of its own here.
_IGNORED_KEYS: Final = frozenset({"enabled", "required", "startup_timeout_sec", "startup_timeout_ms"})
Entries = dict[str, Any]


def read_foreign_entries(path: str, data: bytes) -> tuple[Entries, tuple[str, ...]]:
    """Return the entries of a file by name, and the names of those that are switched off. Raises `ConfigError`."""
    try:
        is_codex = path.endswith(".toml")
        document = parse_toml(decode_marked(data)) if is_codex else decode_json(to_strict_json(data))
    except (msgspec.MsgspecError, RecursionError, tomllib.TOMLDecodeError) as problem:
        raise ConfigError(f"{path} can't be read: {problem}.", hint="None of its servers is offered.") from None
    table = document.get("mcp_servers" if is_codex else "mcp") if isinstance(document, dict) else None
    entries = table if isinstance(table, dict) else {}
    off = tuple(
        str(name) for name, entry in entries.items() if isinstance(entry, dict) and entry.get("enabled") is False
    )
    convert = _convert_codex if is_codex else _convert_opencode
    return {
        str(name): convert(entry) if isinstance(entry, dict) else entry
        for name, entry in entries.items()
        if name not in off
    }, off


def _convert_codex(entry: Mapping[str, Any]) -> Entries:
    """Convert an entry of `[mcp_servers.NAME]`, in which variables are named and not written as `${NAME}`."""
    rest = {key: value for key, value in entry.items() if key not in _IGNORED_KEYS}
    seconds = rest.pop("tool_timeout_sec", None)
    only_tools = {ONLY_TOOLS: rest.pop(ONLY_TOOLS)} if rest.get(ONLY_TOOLS) is not None else {}  # [] = none of them
    names = [str(row.get("name") if isinstance(row, dict) else row) for row in _list(rest.pop("env_vars", []))]
    env = {**{name: f"${{{name}:-}}" for name in names}, **_table(rest.pop("env", {}))}
    token = rest.pop("bearer_token_env_var", None)
    headers = {
        **_table(rest.pop("http_headers", {})),
        **{name: f"${{{variable}}}" for name, variable in _table(rest.pop("env_http_headers", {})).items()},
        **({"Authorization": f"Bearer ${{{token}}}"} if token else {}),
    }
    oauth, scopes = _table(rest.pop("oauth", {})), rest.pop("scopes", None)
    login = {"clientId": oauth.pop("client_id", None), "scopes": scopes, **oauth}
    return only_tools | _drop_empty(
        {
            **rest,
            "env": env,
            "headers": headers,
            "oauth": _drop_empty(login),
            "timeout": seconds * 1000 if isinstance(seconds, int | float) else None,
        }
    )


def _convert_opencode(entry: Mapping[str, Any]) -> Entries:
    """Convert an entry of `mcp`, whose command is a list and whose variables are `{env:NAME}`."""
    rest = {key: _expand(value) for key, value in entry.items() if key not in _IGNORED_KEYS}
    words, env = _list(rest.pop("command", [])), _table(rest.pop("environment", {}))
    kind, login = rest.pop("type", None), _table(rest.pop("oauth", None))
    return _drop_empty(
        {
            **rest,
            "command": words[0] if words else None,
            "args": words[1:],
            "env": env,
            "type": "http" if kind == "remote" else None,
            "oauth": _drop_empty({("scopes" if key == "scope" else key): value for key, value in login.items()}),
            "timeout": None,  # theirs is the time limit of a start
        }
    )


def _expand(value: Any) -> Any:
    if isinstance(value, str):
        if _FILE.search(value):
            return value
        return _VARIABLE.sub(lambda match: f"${{{match[1]}:-}}", value)
    if isinstance(value, list):
        return [_expand(part) for part in value]
    return {key: _expand(part) for key, part in value.items()} if isinstance(value, dict) else value


def list_file_references(entry: Mapping[str, Any]) -> list[str]:
    """Return the references `{file:…}` of a converted entry, which are not followed."""
    return re.findall(_FILE.pattern, repr(entry))


def _drop_empty(table: Mapping[str, Any]) -> Entries:
    return {key: value for key, value in table.items() if value not in (None, {}, [], "")}


def _table(value: Any) -> dict[str, Any]:
    return {str(key): part for key, part in value.items()} if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []
