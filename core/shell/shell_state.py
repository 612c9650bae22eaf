"""The state of a session's shell between two commands: its directory and its changes of the environment.

Every command runs in a separate shell. A prologue makes the shell report its environment, through a copy of its
standard output, at its start and again, with its directory, when it ends by itself; the reports are removed from the
output. The next command starts with the difference. A shell that is killed or replaced by `exec` changes nothing.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from core.patterns import compile_lazily
from core.secrets import count_overlap, redact

MAX_VARIABLES = 200
MAX_VALUE = 32_000
_KEPT_BY_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
_OWN_PREFIXES = ("AGENT_TUI_", "BASH_FUNC_", "BASH_")
_SECRET_NAME = compile_lazily(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIE)S?(?:_|$)"
)
# A copy of standard output is independent of the command's redirections. `set +x` hides our steps from a trace. Bash
# 3.2 of macOS can't name a descriptor by a variable, and would end at the first line.
_PROLOGUE = (
    """if [ "${BASH_VERSINFO-0}" -ge 4 ]; then eval 'exec {__at_out}>&1; """
    """__at_tell() { { printf "%s" "[[at:NONCE:"; printf "%s " "$@"; printf "\\n%s\\n" "${PWD-}"; """
    """export -p; printf "%s" ":NONCE:at]]"; } >&"$__at_out" 2>/dev/null; }; __at_tell; """
    """trap "{ __at_ended=(\\"\\${PIPESTATUS[@]}\\"); set +xeu; } 2>/dev/null; """
    """__at_tell \\"\\${__at_ended[@]}\\"" EXIT'; fi"""
)


class ShellState(Struct, frozen=True, kw_only=True):
    """`directory` relative to the workspace; `variables` and `removed`: the difference from its first environment."""

    directory: str = "."
    variables: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()

    def build_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the environment that the next command starts with."""
        return {name: value for name, value in {**base, **self.variables}.items() if name not in self.removed}

    def list_public_variables(self) -> dict[str, str]:
        """Return the variables that may be stored: none that looks like a secret."""
        return {
            name: value
            for name, value in sorted(self.variables.items())
            if not _SECRET_NAME.search(name.upper()) and redact(value) == value
        }


class ShellReport(Struct, frozen=True, kw_only=True):
    """One report of a shell about itself. `statuses`: the exit codes of its last pipeline."""

    directory: str
    variables: Mapping[str, str]
    statuses: tuple[int, ...] = ()


class ShellTracker:
    """A wrapper of one command that removes the shell's reports from the output, which arrives in chunks."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        nonce = secrets.token_hex(8)
        self._prologue = _PROLOGUE.replace("NONCE", nonce)
        self._open, self._close = f"[[at:{nonce}:", f":{nonce}:at]]"
        self._on_output = on_output
        self._buffer = ""
        self._reports: list[ShellReport] = []

    def wrap_command(self, command: str) -> str:
        """Return the command with the prologue, for the shell."""
        return f"{self._prologue}\n{command}"

    def feed(self, text: str) -> None:
        """Add output and pass the command's own on, except for a tail that may be the beginning of a report."""
        self._buffer += text
        while (start := self._buffer.find(self._open)) >= 0:
            end = self._buffer.find(self._close, start)
            if end < 0:
                break
            if report := _parse_report(replace_undecodable(self._buffer[start + len(self._open) : end])):
                self._reports.append(report)
            self._buffer = self._buffer[:start] + self._buffer[end + len(self._close) :]
        keep = start if start >= 0 else len(self._buffer) - count_overlap(self._buffer, self._open)
        self._emit_output(keep)

    def finish(self) -> None:
        """Flush the output, without an incomplete report."""
        start = self._buffer.find(self._open)
        self._emit_output(start if start >= 0 else len(self._buffer))

    def _emit_output(self, count: int) -> None:
        text, self._buffer = self._buffer[:count], self._buffer[count:]
        if text:
            self._on_output(text)

    @property
    def statuses(self) -> tuple[int, ...]:
        """The exit codes of the last pipeline, () if the shell did not end by itself."""
        return self._reports[-1].statuses if len(self._reports) > 1 else ()

    def compute_state(self, before: ShellState, root: Path) -> tuple[ShellState, str]:
        """Return the state of the shell now, and a note about it ("" = none)."""
        if len(self._reports) < 2:
            return before, ""
        first, last = self._reports[0], self._reports[-1]
        variables, removed_names = dict(before.variables), set(before.removed)
        for name in first.variables.keys() - last.variables.keys():
            variables.pop(name, None)
            removed_names.add(name)
        seen_root = _find_seen_root(first.directory, before.directory)
        for name, value in last.variables.items():
            if first.variables.get(name) != value and len(value) <= MAX_VALUE:
                variables[name] = value.replace(str(seen_root), str(root)) if seen_root != root else value
                removed_names.discard(name)
        directory, note = _relativize(last.directory, (root, seen_root))
        if len(variables) > MAX_VARIABLES:
            return ShellState(directory=directory, variables=before.variables, removed=before.removed), (
                f"{note} More than {MAX_VARIABLES} variables were set; they are not kept.".strip()
            )
        return ShellState(directory=directory, variables=variables, removed=frozenset(removed_names)), note


def _find_seen_root(start: str, directory: str) -> Path:
    """Return the path of the workspace inside the box, which differs for a box that works on a copy."""
    path = Path(start)
    return path if directory == "." else path.parents[len(Path(directory).parts) - 1]


def _relativize(directory: str, roots: Sequence[Path]) -> tuple[str, str]:
    """Return the directory relative to the workspace and a note; any other directory is reset after its command."""
    for root in roots:
        if Path(directory).is_relative_to(root):
            return Path(directory).relative_to(root).as_posix(), ""
    return ".", f"The shell ended in {directory}, outside the workspace: the next command starts in its root."


def replace_undecodable(text: str) -> str:
    """Return text that can be encoded: undecodable bytes are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _parse_report(text: str) -> ShellReport | None:
    statuses, newline, rest = text.partition("\n")
    directory, separator, declarations = rest.partition("\n")
    if not newline or not separator:
        return None
    codes = tuple(int(status) for status in statuses.split() if status.isdigit())
    return ShellReport(directory=directory, variables=parse_exports(declarations), statuses=codes)


_DECLARATION = compile_lazily(r"(?:declare -\S+|export) ([A-Za-z_][A-Za-z0-9_]*)(=)?")
_SEGMENT = compile_lazily(r"""\$'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)|([^\s'"\\$]+|\$)""", re.DOTALL)
_ESCAPE = compile_lazily(
    r"((?:\\[0-7]{3})+)|\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))", re.DOTALL
)
_NAMED = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def parse_exports(text: str) -> dict[str, str]:
    """Parse the output of bash's `export -p`, without variables that are not the user's to set."""
    variables: dict[str, str] = {}
    offset = 0
    while declaration := _DECLARATION.search(text, offset):
        offset = declaration.end()
        if not declaration[2]:
            continue
        parts: list[str] = []
        while segment := _SEGMENT.match(text, offset):
            parts.append(_decode_segment(segment))
            offset = segment.end()
        name, value = declaration[1], "".join(parts)
        if name not in _KEPT_BY_SHELL and not name.startswith(_OWN_PREFIXES) and "\ufffd" not in value:
            variables[name] = value
    return variables


def _decode_segment(segment: re.Match[str]) -> str:
    ansi, double, single, escape, bare = segment.groups()
    if ansi is not None:
        return _ESCAPE.sub(_decode_escape, ansi)
    if double is not None:
        return re.sub(r"\\([$`\"\\\n])", lambda match: match[1].strip("\n"), double)
    return single if single is not None else (escape or bare or "")


def _decode_escape(escape: re.Match[str]) -> str:
    octal, hexadecimal, short, long, letter = escape.groups()
    if octal is not None:
        return bytes(int(part, 8) & 0xFF for part in octal.split("\\")[1:]).decode("utf-8", "replace")
    number = hexadecimal or short or long
    return chr(int(number, 16)) if number else _NAMED.get(letter, letter)
