"""Hook files of both dialects, parsed into one kind of record; invalid entries are reported, and the rest is used.

Files in the wild mix the shapes (Cursor's entries in Claude's file, names in another case), so every entry is parsed by
its own shape, independent of the file. Matchers are names, patterns, or common mistakes (a glob, a permission rule). A
hook that never runs guards nothing, so mistakes are interpreted as intended, and a matcher that can match no tool is
reported.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from core.hooks.dialect_names import EVENTS_BY_NAME, KNOWN_NAMES, NOT_RAISED, RULES, Dialect, HookEvent
from core.patterns import compile_lazily
from core.records import decode_json
from core.text.json_repairs import to_strict_json
from core.text.path_patterns import matches

MAX_SUBJECT: Final = 20_000  # characters of a command that are matched with a pattern
TOOL_EVENTS: Final = frozenset(
    {HookEvent.PRE_TOOL, HookEvent.POST_TOOL, HookEvent.POST_FAILURE, HookEvent.PERMISSION_REQUEST}
)
_EXACT: Final = compile_lazily(r"[A-Za-z0-9_ ,|-]+")
_RULE: Final = compile_lazily(r"(?P<tool>[A-Za-z]\w*)\(.*\)", re.DOTALL)
# This matches names of tools that are not in KNOWN_NAMES.
_OWN_NAME: Final = compile_lazily(r"mcp|[a-z]_[a-z]", re.IGNORECASE)
_GLOB_SIGNS: Final = compile_lazily(r"[*?/.{\[]")
_AS_GLOB: Final = "it is used as a glob on what a call names"
Scope = Literal["project", "user", "plugin"]
MAX_HOOKS: Final = 200  # of one file
MAX_SECONDS: Final = 600.0
DEFAULT_LOOPS: Final = 5
_EVENTS_BY_LOWER: Final = {name.lower(): event for name, event in EVENTS_BY_NAME.items()}
_NOT_RAISED_LOWER: Final = frozenset(map(str.lower, NOT_RAISED))
_KNOWN_KEYS: Final = frozenset(
    {
        *("command", "args", "type", "timeout", "matcher", "failClosed", "loop_limit", "if", "async", "asyncRewake"),
        *("rewakeMessage", "rewakeSummary", "shell", "statusMessage", "once"),
        *("name", "description", "hooks", "enabled", "id", "comment", "event"),
    }
)
_DIRECTORY: Final = compile_lazily(r"(\$\{(?:CLAUDE|CURSOR)_(?:PLUGIN_ROOT|PROJECT_DIR)\})")


class Matcher(Struct, frozen=True):
    """A parsed matcher. `condition`: the permission rule that it was written as; `problem`: a report for the user."""

    text: str = ""
    condition: str = ""
    is_glob: bool = False
    problem: str | None = None


def read_matcher(pattern: object, event: HookEvent, *, is_exact: bool) -> Matcher:
    """Parse a matcher. `is_exact`: plain names are whole names, as in Claude's files."""
    if isinstance(pattern, list) and all(isinstance(name, str) for name in pattern):
        pattern = "|".join(pattern)
    if pattern is None or pattern in ("", "*"):
        return Matcher()
    if not isinstance(pattern, str):
        return Matcher(problem=f"the matcher {str(pattern)[:100]} is not text: the hook runs for everything.")
    if (fault := explain_pattern(pattern)) is not None:
        return Matcher(
            pattern, is_glob=True, problem=f"the matcher {pattern!r} is not a valid pattern: {fault}; {_AS_GLOB}."
        )
    if event not in TOOL_EVENTS or _can_match_tool(pattern, is_exact=is_exact):
        return Matcher(pattern)
    rule = _RULE.fullmatch(pattern)
    if rule is not None and rule["tool"] in KNOWN_NAMES:
        return Matcher(rule["tool"], condition=pattern)
    is_glob = _GLOB_SIGNS.search(pattern) is not None
    outcome = f"{_AS_GLOB}." if is_glob else "the hook may never run."
    return Matcher(
        pattern, is_glob=is_glob, problem=f"the matcher {pattern!r} is not the name of a tool here: {outcome}"
    )


def _can_match_tool(text: str, *, is_exact: bool) -> bool:
    if _OWN_NAME.search(text):
        return True
    return matches_pattern(text, tuple(KNOWN_NAMES), is_exact=is_exact)


def matches_pattern(text: str, subjects: Sequence[str], *, is_exact: bool) -> bool:
    """True if a pattern, or a list of names, matches one of the subjects."""
    if is_exact and (names := list_exact_names(text)):
        return any(subject in names for subject in subjects)
    pattern = re.compile(to_python_pattern(text))
    return any(pattern.search(subject[:MAX_SUBJECT]) for subject in subjects)


def matches_glob(text: str, subjects: Sequence[str]) -> bool:
    """True if a glob, interpreted as widely as possible, matches one of the subjects (names, commands, paths)."""
    return any(
        fnmatchcase(subject[:MAX_SUBJECT], glob) or matches(glob, subject[:MAX_SUBJECT])
        for glob in text.split("|")
        for subject in subjects
    )


def explain_pattern(text: str) -> str | None:
    """Explain why a text is no valid pattern; None: it is one."""
    try:
        re.compile(to_python_pattern(text))
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return None


def to_python_pattern(pattern: str) -> str:
    """Convert a JavaScript pattern to Python; in practice only the syntax of named groups differs."""
    return re.sub(r"\(\?<(?![=!])", "(?P<", pattern)


def list_exact_names(matcher: str) -> tuple[str, ...]:
    """Return the names in a matcher that is a plain list; () = it is a pattern."""
    if not _EXACT.fullmatch(matcher):
        return ()
    return tuple(name for part in re.split(r"[|,]", matcher) if (name := part.strip()))


class HookOwner(Struct, frozen=True, kw_only=True):
    """The attributes that all hooks of a file have in common. `source`: the display name of the file; `home`: the base
    directory of their relative paths, "" = the project."""

    dialect: Dialect
    scope: Scope
    source: str
    home: str = ""


class Hook(HookOwner, frozen=True, kw_only=True):
    """One hook. `condition`: a permission rule that the call must match, as `Bash(git *)`; `is_glob`: its matcher is a
    glob. `loops`: number of times in a row that its answer may make the agent continue, None = unlimited. `timeout` in
    seconds."""

    event: HookEvent
    command: str
    matcher: str = ""
    is_glob: bool = False
    condition: str = ""
    timeout: float = 60.0
    fails_closed: bool = False
    loops: int | None = DEFAULT_LOOPS

    @property
    def id(self) -> str:
        """A stable identifier, derived from the hook's content."""
        identity = "\0".join((self.source, self.event, self.matcher, self.condition, self.command))
        return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    @property
    def directory(self) -> str:
        """The working directory, "" = the project; hooks of Claude's plug-ins run there, those of Cursor's in
        `home`."""
        return "" if self.scope == "plugin" and self.dialect == "claude" else self.home

    def describe(self) -> str:
        """Return one line: the event, matcher and condition, and the command."""
        qualifier = " ".join(filter(None, (self.matcher, f"if {self.condition}" if self.condition else "")))
        return f"{self.event}{f' [{qualifier}]' if qualifier else ''}: {self.command}"


class HookProblem(Struct, frozen=True, kw_only=True):
    """An entry of a hook file that is ignored or reinterpreted; `message` says why."""

    source: str
    message: str


class HookFile(Struct, frozen=True, kw_only=True):
    """A parsed hook file."""

    hooks: tuple[Hook, ...] = ()
    problems: tuple[HookProblem, ...] = ()


def parse_hook_file(data: bytes, owner: HookOwner) -> HookFile:
    """Parse a file. Errors in it are reported as problems, and the rest is used."""
    return _Reader(owner).read(data)


class _Reader:
    def __init__(self, owner: HookOwner) -> None:
        self._owner = owner
        self._problems: list[HookProblem] = []
        self._hooks: dict[str, Hook] = {}

    def read(self, data: bytes) -> HookFile:
        try:
            document = decode_json(to_strict_json(data))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._report(f"none of its hooks runs: it is not JSON ({error}).")
            return self._build()
        table = document.get("hooks") if isinstance(document, dict) else None
        if isinstance(document, dict) and document.get("disableAllHooks") is True:
            self._report("its hooks are off: it sets disableAllHooks.")
        elif isinstance(table, dict):
            for name, entries in table.items():
                self._read_event(str(name), entries)
        elif isinstance(table, list):  # entries that name their event
            for entry in table:
                name = entry.get("event") if isinstance(entry, dict) else None
                self._read_event(
                    str(name), [{key: value for key, value in entry.items() if key != "event"}] if name else []
                )
        elif table is not None or not isinstance(document, dict) or self._owner.dialect != "claude":
            self._report('not read: it has no "hooks" with events.')
        return self._build()

    def _build(self) -> HookFile:
        return HookFile(hooks=tuple(self._hooks.values()), problems=tuple(self._problems))

    def _report(self, message: str) -> None:
        problem = HookProblem(source=self._owner.source, message=message)
        self._problems += [] if problem in self._problems else [problem]

    def _read_event(self, name: str, entries: object) -> None:
        event = _EVENTS_BY_LOWER.get(name.lower())
        if event is None:
            self._report(_explain_event(name))
        elif not isinstance(entries, list):
            self._report(f"{name}: a list of hooks is expected.")
        else:
            for entry, matcher in _iterate_entries(entries):
                self._read_entry(event, name, entry, matcher)

    def _read_entry(self, event: HookEvent, name: str, entry: object, matcher: object) -> None:
        if not isinstance(entry, Mapping):
            self._report(f"{name}: a hook is expected to be an object with a command.")
            return
        kind, command = entry.get("type", "command"), _read_command(entry)
        if kind != "command":
            self._report(f"{name}: hooks of type {kind!r} are not run here, only commands.")
            return
        if not command:
            self._report(f"{name}: a hook has no command.")
            return
        if entry.get("enabled") is False:
            return
        for key in entry.keys() - _KNOWN_KEYS:
            self._report(f"{name}: {_explain_key(str(key))}")
        hook = self._build_hook(event, command, entry, matcher)
        if len(self._hooks) >= MAX_HOOKS:
            self._report(f"only its first {MAX_HOOKS} hooks are used.")
            return
        self._hooks.setdefault(hook.id, hook)

    def _build_hook(self, event: HookEvent, command: str, entry: Mapping[str, Any], matcher: object) -> Hook:
        owner, fails_closed, loops = self._owner, entry.get("failClosed"), entry.get("loop_limit", DEFAULT_LOOPS)
        seconds = entry.get("timeout", RULES[event].seconds)
        is_time = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
        if not is_time:
            self._report(f"{event}: the timeout {seconds!r} is not a number of seconds.")
        elif seconds > MAX_SECONDS:
            self._report(f"{event}: a timeout of {seconds:g} s exceeds the {MAX_SECONDS:g} s that a hook may take.")
        if entry.get("async") or entry.get("asyncRewake"):
            self._report(f"{event}: it runs synchronously although it says async, because its changes are reviewed.")
        parsed_matcher = read_matcher(matcher, event, is_exact=owner.dialect == "claude")
        if parsed_matcher.problem is not None:
            self._report(f"{event}: {parsed_matcher.problem}")
        condition = entry["if"] if isinstance(entry.get("if"), str) else ""
        return Hook(
            **msgspec.structs.asdict(owner),
            event=event,
            command=command,
            matcher=parsed_matcher.text,
            is_glob=parsed_matcher.is_glob,
            condition=condition or parsed_matcher.condition,
            timeout=min(float(seconds), MAX_SECONDS) if is_time else RULES[event].seconds,
            fails_closed=fails_closed
            if isinstance(fails_closed, bool)
            else owner.dialect == "own" and RULES[event].blocks,
            loops=loops if loops is None or (isinstance(loops, int) and loops >= 0) else DEFAULT_LOOPS,
        )


def _iterate_entries(entries: list[object]) -> Iterator[tuple[object, object]]:
    """Iterate over `(hook, matcher)`, for entries that are hooks and for entries with a list of hooks."""
    for entry in entries:
        inner = entry.get("hooks") if isinstance(entry, Mapping) else None
        if isinstance(entry, Mapping) and isinstance(inner, list):
            for inner_entry in inner:
                yield inner_entry, entry.get("matcher")
        elif isinstance(entry, Mapping):
            yield entry, entry.get("matcher")
        else:
            yield entry, None


def _read_command(entry: Mapping[str, Any]) -> str:
    command, words = entry.get("command"), entry.get("args")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        return ""
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        return " ".join(map(_quote_word, [command, *words]))
    return command


def _quote_word(word: str) -> str:
    """Quote a word for a shell that expands only the variables of directories."""
    import shlex

    parts = _DIRECTORY.split(word)
    return "".join(f'"{part}"' if _DIRECTORY.fullmatch(part) else shlex.quote(part) for part in parts if part) or "''"


def _explain_event(name: str) -> str:
    if name.lower() in _NOT_RAISED_LOWER:
        return f"{name}: this event does not exist here, so its hooks never run."
    suggestions = difflib.get_close_matches(name, EVENTS_BY_NAME, n=1, cutoff=0.6)
    return f"{name}: there is no such event.{f' Did you mean {suggestions[0]}?' if suggestions else ''}"


def _explain_key(key: str) -> str:
    suggestions = difflib.get_close_matches(key, _KNOWN_KEYS, n=1, cutoff=0.7)
    return f"{key!r} is unknown and ignored.{f' Did you mean {suggestions[0]}?' if suggestions else ''}"
