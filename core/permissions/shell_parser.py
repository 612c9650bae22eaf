"""A parser of shell commands for permission rules: finds simple commands, and the files of their redirections.

It is no complete shell and classifies nothing as harmless: either a text has one of the few forms that can be split
with certainty, or `is_certain` is False and no rule may allow it. Certain are: words, quotes without expansion, `;`
`&&` `||` `|` `&` newlines, `$(…)`, backticks, `( … )`, and redirections to files that are named literally.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from core.patterns import compile_lazily

MAX_COMMANDS = 50
MAX_NESTING = 8
_SEPARATORS = (";", "&", "|", "\n")
_UNSAFE_CHARACTER = compile_lazily(
    r"[^\n\t\x20-\x7e\u00a1-\u00ac\u00ae-\u1fff\u2030-\u205e\u2070-\u2fff\u3001-\ud7ff\uf900-\ufdff]"
)
_EXPANDED = compile_lazily(r"[$`*?\[\]{}~]")
_RESERVED = frozenset(
    ("!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if")
) | {"in", "select", "then", "time", "until", "while"}
_HARMLESS_SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_FRAGMENT = compile_lazily(r"[;&|\n()`{}]|\$\(")
_DIRECTORY_CHANGERS = frozenset({"cd", "pushd", "popd"})
_ASSIGNMENT = compile_lazily(r"[A-Za-z_]\w*\+?=")
# Programs that execute their arguments or input, which a rule about a command's text can't evaluate.
_PROGRAM_RUNNERS = frozenset(
    (
        *(".", "sh", "bash", "dash", "zsh", "ksh", "fish", "eval", "source", "exec", "env", "xargs", "sudo", "doas"),
        *("su", "nohup", "nice", "ionice", "setsid", "timeout", "stdbuf", "command", "builtin", "find", "parallel"),
        *("watch", "busybox", "script", "ssh", "chroot", "unshare", "awk", "perl", "python", "python3", "ruby", "node"),
        "php",
    )
)


class CommandParts(Struct, frozen=True, kw_only=True):
    """`commands` in order, without redirections; `writes` and `reads`: files of redirections, literally.

    Without `is_certain` the commands are a guess, usable for refusals but never for permissions. `is_plain`: all of
    them begin with the literal name of a program that does not execute its arguments or input.
    """

    commands: tuple[str, ...]
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    is_certain: bool = True
    is_plain: bool = True


_REDIRECTION = compile_lazily(r"(?:\d{1,3}|&)?(<>|<<<|<<|<&|>&|>>|>\||<|>)")
_FILE_NAME = compile_lazily(r"[^\\'\"$`*?\[\]{}~!#()]+|'[^']*'|\"[^\\\"$`]*\"")


class _Uncertain(Exception):
    """The text has none of the supported forms."""


def split_command(command: str) -> CommandParts:
    """Split a command into its parts. Never raises."""
    reader = _CommandReader(command)
    try:
        if _UNSAFE_CHARACTER.search(command):
            raise _Uncertain
        reader.read_list(terminator="")
        if not reader.commands or len(reader.commands) > MAX_COMMANDS or reader.has_moved_redirection():
            raise _Uncertain
    except _Uncertain:
        fragments = (strip_quotes(fragment) for fragment in _FRAGMENT.split(command))
        return CommandParts(commands=tuple(filter(None, fragments)), is_certain=False, is_plain=False)
    plain = all(_is_plain(part) for part in reader.commands)
    return CommandParts(
        commands=tuple(reader.commands), writes=tuple(reader.writes), reads=tuple(reader.reads), is_plain=plain
    )


def strip_quotes(command: str) -> str:
    """Return a command without quotes, leading assignments and the directory of its program."""
    words = re.sub(r"[\\'\"]", "", command).split()
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    if words:
        words[0] = words[0].rpartition("/")[2]
    return " ".join(words)


def _is_plain(command: str) -> bool:
    first = strip_quotes(command).partition(" ")[0]
    return bool(first) and not _EXPANDED.search(first) and first not in _PROGRAM_RUNNERS


class _CommandReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self.commands: list[str] = []
        self.writes: list[str] = []
        self.reads: list[str] = []

    def has_moved_redirection(self) -> bool:
        """True if a relative redirection may refer to another directory than the command's own."""
        relative_paths = [path for path in (*self.writes, *self.reads) if not path.startswith("/")]
        return bool(relative_paths) and any(
            strip_quotes(command).partition(" ")[0] in _DIRECTORY_CHANGERS for command in self.commands
        )

    def _peek(self, length: int = 1) -> str:
        return self._text[self._position : self._position + length]

    def read_list(self, terminator: str) -> None:
        """Read commands and their separators up to and with `terminator` ("" = the end of the text)."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise _Uncertain
        while True:
            self._skip(" \t\n;&|")
            if not self._peek():
                break
            if terminator and self._peek() == terminator:
                self._position += 1
                self._depth -= 1
                return
            self._read_command(terminator)
        if terminator:
            raise _Uncertain
        self._depth -= 1

    def _skip(self, letters: str) -> None:
        while self._peek() and self._peek() in letters:
            self._position += 1

    def _read_command(self, terminator: str) -> None:
        if self._peek() == "(":
            self._position += 1
            self.read_list(")")
            if any(True for _ in self._iterate_words(terminator)):  # only redirections may follow
                raise _Uncertain
            return
        words = list(self._iterate_words(terminator))
        if any(word.strip("'\"") in _RESERVED for word in words[:1]):
            raise _Uncertain
        if words:
            self.commands.append(" ".join(words))

    def _iterate_words(self, terminator: str) -> Iterator[str]:
        """Read to the end of a command; yield its words without the redirections."""
        while True:
            self._skip(" \t")
            letter = self._peek()
            if not letter or letter == terminator or (letter in _SEPARATORS and self._peek(2) != "&>"):
                return
            if not self._read_redirection():
                yield self._read_word(terminator)

    def _read_word(self, terminator: str) -> str:
        start = self._position
        if self._peek() == "#":
            raise _Uncertain
        while letter := self._peek():
            if letter in " \t<>" or letter in _SEPARATORS or letter == terminator:
                break
            self._read_piece(letter)
        return self._text[start : self._position]

    def _read_piece(self, letter: str) -> None:
        match letter:
            case "'":
                self._position = self._find_end("'")
            case '"':
                self._read_double()
            case "`":
                self._read_backticks()
            case "$":
                self._read_substitution()
            case "\\":
                if self._peek(2) in {"\\", "\\\n"}:
                    raise _Uncertain
                self._position += 2
            case "(" | ")":
                raise _Uncertain
            case _:
                self._position += 1

    def _find_end(self, mark: str) -> int:
        end = self._text.find(mark, self._position + 1)
        if end < 0:
            raise _Uncertain
        return end + 1

    def _read_double(self) -> None:
        self._position += 1
        while (letter := self._peek()) != '"':
            if not letter:
                raise _Uncertain
            if letter in "`$":
                self._read_piece(letter)
            else:
                self._position += 2 if letter == "\\" else 1
        self._position += 1

    def _read_substitution(self) -> None:
        """Read `$(…)`, whose commands count, too. Any other expansion has an unknown result."""
        if self._peek(2) != "$(" or self._peek(3) == "$((":
            raise _Uncertain
        self._position += 2
        self.read_list(")")

    def _read_backticks(self) -> None:
        end = self._find_end("`")
        inner = self._text[self._position + 1 : end - 1]
        if "\\" in inner:
            raise _Uncertain
        within = _CommandReader(inner)
        within._depth = self._depth
        within.read_list(terminator="")
        self.commands += within.commands
        self.writes += within.writes
        self.reads += within.reads
        self._position = end

    def _read_redirection(self) -> bool:
        """Read a redirection; return False if there is none."""
        match = _REDIRECTION.match(self._text, self._position)
        if match is None:
            return False
        self._position = match.end()
        if match[1] in {"<<", "<<<"} or self._peek() == "(":
            raise _Uncertain
        self._skip(" \t")
        self._add_redirection(match[1], self._read_word(""))
        return True

    def _add_redirection(self, sign: str, target: str) -> None:
        if sign in {">&", "<&"} and re.fullmatch(r"\d{1,3}-?|-", target):
            return
        if _FILE_NAME.fullmatch(target) is None:
            raise _Uncertain
        path = target.strip("'\"")
        if path in _HARMLESS_SINKS and sign != "<":
            return
        if sign in {"<", "<&", "<>"}:
            self.reads.append(path)
        if sign not in {"<", "<&"}:
            self.writes.append(path)
