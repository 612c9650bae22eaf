"""Where a session's shell stands between two commands: its directory and what it made of its environment.

Each command has a shell of its own. A prologue makes it tell, through a copy of its standard output, its environment
at its beginning and, when it ends by itself, once more with its directory; what it tells is taken out of the output
again. The next command starts with the difference. A shell that is killed, or that `exec` replaces, leaves no trace.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

MAX_VARIABLES = 200
MAX_VALUE = 32_000
_KEPT_BY_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
_OURS = ("AGENT_TUI_", "BASH_FUNC_", "BASH_")
_SECRET_NAME = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIE)S?(?:_|$)")
# `>&` to a copy: what the command does to its own output does not matter. `set +x` keeps our steps out of a trace.
_PROLOGUE = (
    """if [ -n "${BASH_VERSION-}" ]; then eval 'exec {__at_out}>&1; """
    """__at_tell() { { printf "%s" "[[at:NONCE:"; printf "%s " "$@"; printf "\\n%s\\n" "${PWD-}"; """
    """export -p; printf "%s" ":NONCE:at]]"; } >&"$__at_out" 2>/dev/null; }; __at_tell; """
    """trap "{ __at_ended=(\\"\\${PIPESTATUS[@]}\\"); set +xeu; } 2>/dev/null; """
    """__at_tell \\"\\${__at_ended[@]}\\"" EXIT'; fi"""
)


class ShellState(Struct, frozen=True, kw_only=True):
    """`directory` relative to the workspace; `variables` and `removed`: what differs from its first environment."""

    directory: str = "."
    variables: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """What the next command starts with."""
        return {name: value for name, value in {**base, **self.variables}.items() if name not in self.removed}

    def public(self) -> dict[str, str]:
        """The variables that may be written down."""
        from core.secrets import redact

        return {
            name: value
            for name, value in sorted(self.variables.items())
            if not _SECRET_NAME.search(name.upper()) and redact(value) == value
        }


class Told(Struct, frozen=True, kw_only=True):
    """What a shell said of itself. `statuses`: the exit codes of its last pipeline."""

    directory: str
    variables: Mapping[str, str]
    statuses: tuple[int, ...] = ()


class ShellWitness:
    """Wraps one command and takes what its shell tells out of its output, which comes in pieces."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        nonce = secrets.token_hex(8)
        self._prologue = _PROLOGUE.replace("NONCE", nonce)
        self._open, self._close = f"[[at:{nonce}:", f":{nonce}:at]]"
        self._on_output = on_output
        self._held = ""
        self._told: list[Told] = []

    def script(self, command: str) -> str:
        """The command as the shell is to run it."""
        return f"{self._prologue}\n{command}"

    def feed(self, text: str) -> None:
        """More output; what is the command's own is handed on, but for an end that may be the beginning of ours."""
        self._held += text
        while (start := self._held.find(self._open)) >= 0:
            end = self._held.find(self._close, start)
            if end < 0:
                break
            if told := _parsed(readable(self._held[start + len(self._open) : end])):
                self._told.append(told)
            self._held = self._held[:start] + self._held[end + len(self._close) :]
        keep = start if start >= 0 else len(self._held) - _overlap(self._held, self._open)
        self._give(keep)

    def finish(self) -> None:
        """No more output comes. What the shell did not say to its end is not shown either."""
        start = self._held.find(self._open)
        self._give(start if start >= 0 else len(self._held))

    def _give(self, count: int) -> None:
        shown, self._held = self._held[:count], self._held[count:]
        if shown:
            self._on_output(shown)

    @property
    def statuses(self) -> tuple[int, ...]:
        """The exit codes of the last pipeline, none when the shell did not end by itself."""
        return self._told[-1].statuses if len(self._told) > 1 else ()

    def moved(self, before: ShellState, root: Path) -> tuple[ShellState, str]:
        """Where the shell stands now, and what there is to say about it ("" = nothing)."""
        if len(self._told) < 2:
            return before, ""
        first, last = self._told[0], self._told[-1]
        variables, removed = dict(before.variables), set(before.removed)
        for name in first.variables.keys() - last.variables.keys():
            variables.pop(name, None)
            removed.add(name)
        seen = _root_seen(first.directory, before.directory)
        for name, value in last.variables.items():
            if first.variables.get(name) != value and len(value) <= MAX_VALUE:
                variables[name] = value.replace(str(seen), str(root)) if seen != root else value
                removed.discard(name)
        directory, note = _within(last.directory, (root, seen))
        if len(variables) > MAX_VARIABLES:
            return ShellState(directory=directory, variables=before.variables, removed=before.removed), (
                f"{note} More than {MAX_VARIABLES} variables were set; they are not kept.".strip()
            )
        return ShellState(directory=directory, variables=variables, removed=frozenset(removed)), note


def _root_seen(start: str, directory: str) -> Path:
    """Where the command saw the workspace: a box that works on a copy has it at another path."""
    seen = Path(start)
    return seen if directory == "." else seen.parents[len(Path(directory).parts) - 1]


def _within(directory: str, roots: Sequence[Path]) -> tuple[str, str]:
    """The directory as a path in the workspace; any other place lasts no longer than its command."""
    for root in roots:
        if Path(directory).is_relative_to(root):
            return Path(directory).relative_to(root).as_posix(), ""
    return ".", f"The shell was left in {directory}, outside of the workspace: the next command starts in its root."


def _overlap(text: str, mark: str) -> int:
    """How many characters at the end of `text` may be the beginning of `mark`."""
    return next((size for size in range(min(len(mark) - 1, len(text)), 0, -1) if mark.startswith(text[-size:])), 0)


def readable(text: str) -> str:
    """Text that can be written down: what a raw output keeps of bytes that are no text is replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _parsed(text: str) -> Told | None:
    statuses, newline, rest = text.partition("\n")
    directory, more, declarations = rest.partition("\n")
    if not newline or not more:
        return None
    codes = tuple(int(each) for each in statuses.split() if each.isdigit())
    return Told(directory=directory, variables=exported(declarations), statuses=codes)


_DECLARATION = re.compile(r"(?:declare -\S+|export) ([A-Za-z_][A-Za-z0-9_]*)(=)?")
_SEGMENT = re.compile(r"""\$'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)|([^\s'"\\$]+|\$)""", re.DOTALL)
_ESCAPE = re.compile(
    r"((?:\\[0-7]{3})+)|\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))", re.DOTALL
)
_NAMED = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def exported(text: str) -> dict[str, str]:
    """The variables in the output of bash's `export -p`, without those that are not the user's to set."""
    found: dict[str, str] = {}
    place = 0
    while declared := _DECLARATION.search(text, place):
        place = declared.end()
        if not declared[2]:
            continue
        parts: list[str] = []
        while segment := _SEGMENT.match(text, place):
            parts.append(_value(segment))
            place = segment.end()
        name, value = declared[1], "".join(parts)
        if name not in _KEPT_BY_SHELL and not name.startswith(_OURS) and "\ufffd" not in value:
            found[name] = value
    return found


def _value(segment: re.Match[str]) -> str:
    ansi, double, single, escaped, bare = segment.groups()
    if ansi is not None:
        return _ESCAPE.sub(_unescaped, ansi)
    if double is not None:
        return re.sub(r"\\([$`\"\\\n])", lambda each: each[1].strip("\n"), double)
    return single if single is not None else (escaped or bare or "")


def _unescaped(escape: re.Match[str]) -> str:
    octal, hexadecimal, short, long, letter = escape.groups()
    if octal is not None:
        return bytes(int(each, 8) & 0xFF for each in octal.split("\\")[1:]).decode("utf-8", "replace")
    number = hexadecimal or short or long
    return chr(int(number, 16)) if number else _NAMED.get(letter, letter)
