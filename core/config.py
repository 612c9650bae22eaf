"""Settings: the user's file decides, a project's file may only narrow it.

A project is somebody else's text until its user says otherwise, so nothing in `.agent-tui/config.toml` can choose a
model, a server, a key or a laxer policy: such lines are ignored and reported. Errors name file, key and line.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from core.errors import ConfigError
from core.modes import Mode
from core.permissions.rules import Choice, Rule, parse_rule
from core.permissions.voices import Hears, everything
from core.user_dirs import config_dir

FILE_NAME = "config.toml"
PROJECT_FILE = Path(".agent-tui") / FILE_NAME
MAX_BYTES = 256 * 1024

CommandPolicy = Literal["confirm", "auto", "human"]
EditPolicy = Literal["review", "auto"]
DialectName = Literal["native", "tags", "command"]
EditFormat = Literal["search_replace", "str_replace", "multi_edit", "patch", "lazy", "blocks"]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
_KeyId = Annotated[str, Meta(pattern=r"^[a-z_]+\.[a-z_]+$")]
_Keys = Annotated[str, Meta(pattern=r"^\S{1,40}( *, *\S{1,40})*$")]

_ALIASES = {("commands", "policy"): {"yolo": "auto"}}


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one turn may use: model calls, US dollars, tokens (prompt and answer together). 0 = no limit."""

    max_steps: Count = 100
    max_cost: Amount = 0.0
    max_tokens: Count = 0


class Commands(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`confirm` asks before each command, `auto` runs contained ones unasked, `human` leaves them to the user.

    `checks`: how further commands begin that check the code, such as "bin/verify" or "nix flake check*".
    """

    policy: CommandPolicy = "auto"
    checks: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ()


class Edits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`review` waits for a verdict on every hunk, `auto` accepts them at the end of each step."""

    policy: EditPolicy = "review"


class Interface(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`keymap` maps a binding's id to keys, `theme` "" = the program's own. Which of them exist the screen knows."""

    theme: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,60}$")] = ""
    keymap: dict[_KeyId, _Keys] = field(default_factory=dict)


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model API. `kind` says which protocol it speaks; "" = by its name, else OpenAI's.

    `api_key_env` names the environment variable that holds the key; a key itself never stands in a configuration file.
    """

    base_url: str = ""
    api_key_env: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    kind: Literal["", "openai", "anthropic"] = ""


class ContextSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`compact_at`: the used share of the window at which older messages are summarised; `window` 0 = the model's."""

    compact_at: Annotated[float, Meta(ge=0.1, le=0.98)] = 0.85
    window: Count = 0


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, by its id `provider/name`. `dialect`: how it says what it wants done; function calls are native.

    `edits`: the format in which it is offered to edit files; "" = the one that models of its name are best at.
    """

    dialect: DialectName = "native"
    edits: EditFormat | Literal[""] = ""


class PermissionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules, each `Kind(pattern)`; the strictest that speaks of a call wins."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def by_choice(self) -> tuple[tuple[Choice, tuple[str, ...]], ...]:
        return ("allow", self.allow), ("ask", self.ask), ("deny", self.deny)

    def rules(self) -> tuple[Rule, ...]:
        """Raises `ConfigError` for what is no rule; what was read from a file holds none of that."""
        return tuple(parse_rule(text, choice, FILE_NAME) for choice, texts in self.by_choice() for text in texts)


class DialectFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files of the user's that replace what the program says in a dialect; relative to the configuration directory."""

    command: str = ""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured; the defaults are the program's.

    `small_model` writes notes, `apply_model` fits edits into files; "" = the chosen model does.
    """

    model: str = ""
    small_model: str = ""
    apply_model: str = ""
    mode: Mode = Mode.AGENT
    limits: Limits = Limits()
    commands: Commands = Commands()
    edits: Edits = Edits()
    ui: Interface = Interface()
    providers: dict[str, ProviderSettings] = field(default_factory=dict)
    context: ContextSettings = ContextSettings()
    models: dict[str, ModelSettings] = field(default_factory=dict)
    dialects: DialectFiles = DialectFiles()
    permissions: PermissionSettings = PermissionSettings()

    def dialect_of(self, model: str) -> DialectName:
        """How a model is spoken with, by its id."""
        return self.models.get(model, ModelSettings()).dialect


class LoadedSettings(Struct, frozen=True, kw_only=True):
    """`notices`: what of the project's file was ignored, and why; one line each."""

    settings: Settings
    notices: tuple[str, ...] = ()


def load_settings(workspace_root: Path | None = None) -> Settings:
    """The settings that hold in a workspace. Raises `ConfigError`."""
    return load_with_notices(workspace_root).settings


def load_with_notices(workspace_root: Path | None = None, hears: Hears = everything) -> LoadedSettings:
    """As `load_settings`, and what of the project's file was ignored. `hears`: whether the bytes of that file may be
    interpreted. Raises `ConfigError`."""
    settings, _ = _read(config_dir() / FILE_NAME, bytes_of(config_dir() / FILE_NAME))
    said = bytes_of(workspace_root / PROJECT_FILE) if workspace_root is not None else None
    if workspace_root is None or said is None or not hears(PROJECT_FILE.as_posix(), said):
        return LoadedSettings(settings=settings)
    theirs, table = _read(workspace_root / PROJECT_FILE, said)
    return _narrowed(settings, theirs, table, PROJECT_FILE.as_posix())


def _read(path: Path, data: bytes | None) -> tuple[Settings, dict[str, Any]]:
    """The settings of one file (the defaults if there is none) and the raw table, to know which keys it sets."""
    if data is None:
        return Settings(), {}
    try:
        text = data.decode("utf-8")
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}).", hint="Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.", hint="Correct that line.") from None
    for (section, key), aliases in _ALIASES.items():
        inner = table.get(section)
        if isinstance(inner, dict) and isinstance(inner.get(key), str):
            inner[key] = aliases.get(inner[key], inner[key])
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        raise _together(list(_problems(path, text, table)) or [_explained(path, text, str(error))]) from None
    if wrong := list(_wrong_rules(path, text, settings.permissions)):
        raise _together(wrong)
    return settings, table


def _problems(path: Path, text: str, table: Mapping[str, Any]) -> Iterator[ConfigError]:
    """What is wrong with each key by itself, so that all of it can be mended at once."""
    for section, key in _keys(table):
        part = {section: {key: table[section][key]}} if section else {key: table[key]}
        try:
            msgspec.convert(part, Settings)
        except msgspec.ValidationError as error:
            yield _explained(path, text, str(error))


def _together(problems: Sequence[ConfigError]) -> ConfigError:
    """One error that tells all of them, one a line."""
    return problems[0] if len(problems) == 1 else ConfigError("\n".join(each.explained() for each in problems))


def _wrong_rules(path: Path, text: str, permissions: PermissionSettings) -> Iterator[ConfigError]:
    """Every text that is no rule, with its key and its line."""
    for choice, rules in permissions.by_choice():
        for rule in rules:
            try:
                parse_rule(rule, choice)
            except ConfigError as problem:
                line = _line_of_rule(text, rule) or _line_of(text, f"permissions.{choice}")
                place = f"{path}, line {line}" if line else str(path)
                yield ConfigError(f"{place}: `permissions.{choice}`: {problem.message}", hint=problem.hint)


def _line_of_rule(text: str, rule: str) -> int:
    """The 1-indexed line that holds a string of the table of permissions; 0 when it can't be told."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([\w.]+)\s*\]", line):
            inside = header[1] == "permissions"
        if (inside or "permissions" in line) and (f'"{rule}"' in line or f"'{rule}'" in line):
            return number
    return 0


def bytes_of(path: Path) -> bytes | None:
    """A file of settings as it is; None: there is none. Raises `ConfigError`."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                raise ConfigError(
                    f"{path} is not a regular file of at most {MAX_BYTES // 1024} KiB.", hint="Move it out of the way."
                )
            return file.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.", hint="Check its permissions.") from None


_AT = re.compile(r" - at (?:`key` in )?`\$(?:\.)?(?P<path>[^`]*)`$")
_PATTERN = re.compile(r"Expected `str` matching regex .*")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")


def _explained(path: Path, text: str, problem: str) -> ConfigError:
    """A validation error in the words of the file's reader: which key, on which line, what is valid."""
    at = _AT.search(problem)
    where = at["path"].replace("[...]", "") if at else ""
    reason = _PATTERN.sub("it does not have the form that is wanted here", _AT.sub("", problem))
    hint = ""
    if unknown := _UNKNOWN.search(reason):
        valid = _valid_keys(where)
        where = ".".join(filter(None, (where, unknown["key"])))
        reason = "unknown key"
        hint = f"Valid here: {', '.join(valid)}." if valid else ""
    else:
        hint = _valid_values(where)
    line = _line_of(text, where)
    place = f"{path}, line {line}" if line else str(path)
    return ConfigError(f"{place}: `{where}`: {reason[:1].lower()}{reason[1:]}.", hint=hint)


_SECTIONS: Mapping[str, type[Struct]] = {
    "": Settings,
    "limits": Limits,
    "commands": Commands,
    "edits": Edits,
    "ui": Interface,
    "context": ContextSettings,
    "providers": ProviderSettings,
    "models": ModelSettings,
    "dialects": DialectFiles,
    "permissions": PermissionSettings,
}


def _valid_keys(section: str) -> tuple[str, ...]:
    record = _SECTIONS.get(section.partition(".")[0])
    return record.__struct_fields__ if record else ()


_VALUES = {
    "mode": "agent, plan, ask, debug",
    "commands.policy": "confirm, auto (or yolo), human",
    "edits.policy": "review, auto",
    "context.compact_at": "a number from 0.1 to 0.98",
    "models.dialect": "native, tags, command",
    "models.edits": "search_replace, str_replace, multi_edit, patch, lazy, blocks",
    "ui.theme": "the name of a theme, such as nord (/theme lists them)",
    "ui.keymap": '"scope.action" = "keys", such as "review.accept" = "a" or "prompt.newline" = "ctrl+j,shift+enter"',
    **dict.fromkeys(
        ("permissions.allow", "permissions.ask", "permissions.deny"),
        'a list of rules, such as ["Shell(npm run *)", "Read(**/.env)", "Write(src/**)", "WebFetch(example.org)"]',
    ),
    "limits.max_steps": "a whole number, 0 = no limit",
    "limits.max_tokens": "a whole number, 0 = no limit",
    "limits.max_cost": "a number of US dollars, 0 = no limit",
}


def _valid_values(key: str) -> str:
    return f"Valid: {_VALUES[key]}." if key in _VALUES else ""


def _line_of(text: str, dotted: str) -> int:
    """The 1-indexed line that sets a key; 0 when it can't be told."""
    *tables, key = dotted.split(".")
    section: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            section = [part.strip().strip("\"'") for part in header[1].split(".")]
            if ".".join(section) == dotted:
                return number
        elif assignment := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            full = [*section, *(part.strip("\"'") for part in assignment[1].split("."))]
            if full in ([*tables, key], [*tables]):
                return number
    return 0


_STRICTER = {"auto": 0, "confirm": 1, "human": 2}


def _lower_limit(mine: float, theirs: float) -> bool:
    return theirs > 0 and (mine == 0 or theirs < mine)


# Which keys of a project's file are heard, and when the project's value is narrower than the user's.
_NARROWER: Mapping[tuple[str, str], Callable[[Any, Any], bool]] = {
    ("", "mode"): lambda _mine, theirs: theirs is Mode.ASK,
    ("limits", "max_steps"): _lower_limit,
    ("limits", "max_cost"): _lower_limit,
    ("limits", "max_tokens"): _lower_limit,
    ("commands", "policy"): lambda mine, theirs: _STRICTER[theirs] > _STRICTER[mine],
    ("edits", "policy"): lambda mine, theirs: theirs == "review" and mine == "auto",
    ("context", "compact_at"): lambda mine, theirs: theirs < mine,
}
# What a project's file adds to the user's: rules that ask or refuse.
_ADDED = frozenset({("permissions", "ask"), ("permissions", "deny")})


def _narrowed(mine: Settings, theirs: Settings, table: Mapping[str, Any], name: str) -> LoadedSettings:
    """The user's settings with the project's narrower values in them."""
    notices: list[str] = []
    for section, key in _keys(table):
        holder = getattr(mine, section) if section else mine
        offered = getattr(theirs, section) if section else theirs
        narrower = _NARROWER.get((section, key))
        dotted = f"{section}.{key}" if section else key
        if (section, key) in _ADDED:
            both = tuple(dict.fromkeys((*getattr(holder, key), *getattr(offered, key))))
            mine = msgspec.structs.replace(mine, **{section: msgspec.structs.replace(holder, **{key: both})})
        elif narrower is None:
            notices.append(f"{name}: `{dotted}` was ignored: only your own configuration can set it.")
        elif narrower(getattr(holder, key), getattr(offered, key)):
            changed = msgspec.structs.replace(holder, **{key: getattr(offered, key)})
            mine = msgspec.structs.replace(mine, **{section: changed}) if section else changed
        elif getattr(holder, key) != getattr(offered, key):
            notices.append(f"{name}: `{dotted}` was ignored: a project can only make your settings stricter.")
    return LoadedSettings(settings=mine, notices=tuple(notices))


def _keys(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(section, key) of everything that a file sets; a key outside of any table has the section ""."""
    found = []
    for name, value in table.items():
        if isinstance(value, dict) and name in _SECTIONS:
            found += [(name, key) for key in value]
        else:
            found.append(("", name))
    return found
