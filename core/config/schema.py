"""The schema of the settings, derived from their types: valid keys, invalid values, and descriptions of valid ones.

The type of a field is the only definition of its valid values; `_EXAMPLES` has what a type can't express.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from core.config.settings import Settings
from core.protocol.queries.settings import SettingKind
from core.records import convert

KeyPath = tuple[str, ...]


class Misfit(NamedTuple):
    """An invalid value. `path`: its keys from the top; `reason`: the problem as part of a sentence."""

    path: KeyPath
    reason: str


class Setting(NamedTuple):
    """One setting: its keys, type and default. NAME stands for the user's name of a table."""

    path: KeyPath
    kind: Any
    default: Any

    @property
    def dotted(self) -> str:
        return ".".join(self.path)


# Tables whose subtables have the same type.
_UNIFORM_TABLES: Final = frozenset({"routes", "modes", "providers", "models", "lsp", "agent_servers", "tools"})
UNKNOWN: Final = "unknown key"
NAME: Final = "NAME"
_EXAMPLES: Final = {
    "models.NAME.price": "{ input = 3.0, output = 15.0, cached = 0.3 } in US dollars for a million tokens",
    "limits.max_steps": "a whole number, 0 = no limit",
    "limits.max_tokens": "a whole number, 0 = no limit",
    "limits.max_cost": "a number of US dollars, 0 = no limit",
    "commands.policy": "confirm, auto (or yolo), human",
    "plans.directory": "a directory of the project or elsewhere, such as docs/plans or ~/plans",
    "ui.theme": "the name of a theme, such as nord (/theme lists them)",
    "ui.syntax": "a style of Pygments, such as monokai",
    "notify.command": 'a list of words, such as ["notify-send", "-a", "agent-tui"]',
    "ui.keymap": '"scope.action" = "keys", such as "review.accept" = "a" or "prompt.newline" = "ctrl+j,shift+enter"',
    "lsp.NAME.command": 'a list of words, such as ["pylsp"] or ["deno", "lsp"]',
    "lsp.NAME.languages": 'a list, such as ["python"] or ["javascript", "typescript"]',
    "lsp.NAME.roots": 'a list of file names, such as ["deno.json"]',
    "browser.command": 'a list of words, such as ["node", "/opt/playwright-mcp/cli.js"]',
    "tools.NAME.allowed_paths": 'a list of directories and files, such as ["src/", "tests/"]',
    **dict.fromkeys(
        ("model", "small_model", "apply_model", "routes.NAME.model", "modes.NAME.model"),
        "PROVIDER/NAME, such as openai/gpt-6.1-terra",
    ),
    "routes.NAME.fallback": 'a list of models, such as ["anthropic/claude-sonnet-5-5", "ollama/qwen3:8b"]',
    **dict.fromkeys(
        ("permissions.allow", "permissions.ask", "permissions.deny"),
        'a list of rules, such as ["Shell(npm run *)", "Read(**/.env)", "Write(src/**)", "WebFetch(example.org)"]',
    ),
}


def strip_annotation(kind: Any) -> Any:
    """Return a type without its annotations."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def find_record(kind: Any) -> type[Struct] | None:
    """Return the record type of a type or of its alternatives; None if there is none."""
    plain = strip_annotation(kind)
    if isinstance(plain, type) and issubclass(plain, Struct):
        return plain
    options = get_args(plain) if get_origin(plain) in {Union, UnionType} else ()
    return next((record for option in options if (record := find_record(option)) is not None), None)


def is_table_of_names(kind: Any) -> bool:
    """True for a table whose keys are the user's names."""
    return get_origin(strip_annotation(kind)) is dict


def find_misfits(value: Any, kind: Any = Settings, path: KeyPath = ()) -> Iterator[Misfit]:
    """Iterate over all invalid values in the order of the file."""
    record = find_record(kind)
    if isinstance(value, Mapping) and record is not None:
        yield from _find_misfits_of_record(value, record, path)
    elif isinstance(value, Mapping) and is_table_of_names(kind):
        of_key, of_value = get_args(strip_annotation(kind))
        for key, nested_value in value.items():
            yield from _check_value(key, of_key, (*path, key))
            yield from find_misfits(nested_value, of_value, (*path, key))
    else:
        yield from _check_value(value, kind, path)


def _find_misfits_of_record(table: Mapping[str, Any], record: type[Struct], path: KeyPath) -> Iterator[Misfit]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(record)}
    misfits: list[Misfit] = []
    for key, value in table.items():
        key_path = (*path, key)
        misfits += find_misfits(value, fields[key].type, key_path) if key in fields else [Misfit(key_path, UNKNOWN)]
    missing = [name for name, field in fields.items() if field.required and name not in table]
    misfits += [Misfit(path, f"`{name}` is missing") for name in missing]
    if not misfits and hasattr(record, "__post_init__"):  # constraints across fields
        misfits += _check_value(table, record, path)
    yield from misfits


def _check_value(value: object, kind: Any, path: KeyPath) -> Iterator[Misfit]:
    try:
        convert(value, kind)
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at ")[0]
        if "matching regex" in reason:
            reason = "it does not have the expected form"
        yield Misfit(path, reason[:1].lower() + reason[1:])


def drop_values(table: Mapping[str, Any], paths: set[KeyPath], path: KeyPath = ()) -> dict[str, Any]:
    """Return a table without the values at some paths."""
    return {
        key: drop_values(value, paths, (*path, key)) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if (*path, key) not in paths
    }


def list_keys(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (section, key) of every key in a file; the section of a top-level key is ""."""
    tables = {field.encode_name for field in msgspec.structs.fields(Settings) if field.default_factory is dict}
    tables |= {field.encode_name for field in msgspec.structs.fields(Settings) if isinstance(field.default, Struct)}
    keys: list[tuple[str, str]] = []
    for name, value in table.items():
        keys += [(name, key) for key in value] if isinstance(value, dict) and name in tables else [("", name)]
    return keys


def list_settings(record: type[Struct] = Settings, path: KeyPath = ()) -> Iterator[Setting]:
    """Iterate over all settings; those of tables that the user names occur once, below NAME."""
    for field in msgspec.structs.fields(record):
        key_path, inner = (*path, field.encode_name), find_record(field.type)
        default = field.default_factory() if callable(field.default_factory) else field.default
        value_kind = get_args(strip_annotation(field.type))[1] if is_table_of_names(field.type) else None
        if value_kind is not None and (of_names := find_record(value_kind)) is not None:
            yield from list_settings(of_names, (*key_path, NAME))
        elif inner is not None and default is not None:
            yield from list_settings(inner, key_path)
        else:
            yield Setting(key_path, field.type, default)


def find_setting(path: KeyPath) -> Setting | None:
    """Return the setting at a path with the user's names in it; None if there is none."""
    for setting in list_settings():
        pairs = zip(setting.path, path, strict=False)
        if len(setting.path) == len(path) and all(segment in (name, NAME) for segment, name in pairs):
            return setting._replace(path=path)
    return None


def list_valid_keys(path: KeyPath) -> tuple[str, ...]:
    """Return the valid keys of a table; () = any name."""
    kind: Any = Settings
    for key in path:
        record = find_record(kind)
        if record is not None:
            kind = next((field.type for field in msgspec.structs.fields(record) if field.encode_name == key), None)
        else:
            kind = get_args(strip_annotation(kind))[1] if is_table_of_names(kind) else None
    table_record = find_record(kind) if kind is not None else None
    return table_record.__struct_fields__ if table_record is not None else ()


def describe_valid_values(path: KeyPath) -> str:
    """Describe the valid values at a path, or of the setting that contains it; "" = unknown."""
    for length in range(len(path), 0, -1):
        if (setting := find_setting(path[:length])) is not None:
            return _EXAMPLES.get(generalize_key(setting.path)) or _describe_kind(setting.kind)
    return ""


def find_value_kind(setting: Setting) -> SettingKind:
    """Return the kind of a setting's value."""
    if list_choices(setting.kind):
        return "choice"
    plain = strip_annotation(setting.kind)
    kinds: dict[Any, SettingKind] = {bool: "flag", int: "number", float: "number", str: "text"}
    return "list" if get_origin(plain) is tuple else kinds.get(plain, "table")


def generalize_key(path: KeyPath) -> str:
    """Return the dotted key with NAME in place of names."""
    if path[0] == "modes" and len(path) > 4:  # modes.ask.tools.grep.enabled: as in tools.grep
        return generalize_key(path[2:])
    is_table = path[0] in _UNIFORM_TABLES and len(path) > 2
    return ".".join((path[0], NAME, *path[2:]) if is_table else path)


def list_choices(kind: Any) -> tuple[str, ...]:
    """Return the allowed words of a type, () = not an enumeration. The empty word is the default."""
    plain = strip_annotation(kind)
    if isinstance(plain, type) and issubclass(plain, Enum):
        return tuple(str(member.value) for member in plain)
    if get_origin(plain) is Literal:
        return tuple(str(choice) for choice in get_args(plain) if choice != "")
    if get_origin(plain) in {Union, UnionType}:
        return tuple(word for option in get_args(plain) for word in list_choices(option))
    return ()


def _describe_kind(kind: Any) -> str:
    plain = strip_annotation(kind)
    if choices := list_choices(kind):
        return ", ".join(choices)
    if get_origin(plain) is tuple:
        return 'a list of strings, such as ["one", "two"]'
    if is_table_of_names(kind):
        return 'a table, such as { name = "value" }'
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return f"{words.get(plain, 'a value')}{_describe_bounds(kind)}"


def _describe_bounds(kind: Any) -> str:
    metas = [arg for arg in get_args(kind)[1:] if isinstance(arg, Meta)] if get_origin(kind) is Annotated else []
    low = next((meta.ge for meta in metas if meta.ge is not None), None)
    high = next((meta.le for meta in metas if meta.le is not None), None)
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    return f" of at least {low:g}" if low is not None else ""
