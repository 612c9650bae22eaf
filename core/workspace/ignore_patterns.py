"""Patterns of gitignore(5), matched byte by byte in one pass: the work is bounded by pattern times path.

Patterns have the semantics of git's wildmatch.c and dir.c, including their peculiarities. A pattern is a chain of
states, stored as the bits of a number; every byte of a path advances all states at once (the bit-parallel simulation of
an automaton, Baeza-Yates and Gonnet 1992).
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from core.filesystem.name_spelling import fold_spelling

_SLASH = ord("/")
_SPECIAL = b"*?[\\"
_CLASSES = {
    "alnum": (string.ascii_letters + string.digits).encode(),
    "alpha": string.ascii_letters.encode(),
    "blank": b" \t",
    "cntrl": bytes([*range(32), 127]),
    "digit": string.digits.encode(),
    "graph": bytes(range(33, 127)),
    "lower": string.ascii_lowercase.encode(),
    "print": bytes(range(32, 127)),
    "punct": string.punctuation.encode(),
    "space": b" \t\n\r\f\v",
    "upper": string.ascii_uppercase.encode(),
    "xdigit": string.hexdigits.encode(),
}


class _MalformedPattern(ValueError):
    """The pattern is malformed: in git it matches nothing."""


class _Token(Struct, frozen=True):
    """One step of a pattern. `takes`: the accepted bytes, for one byte or, with `repeats`, any number of bytes.

    `skips`: it accepts no byte, and the next two tokens may be skipped.
    """

    takes: frozenset[int]
    repeats: bool = False
    skips: bool = False


_ANY = frozenset(range(1, 256))
_NAME = _ANY - {_SLASH}

_DIRECTORIES = [_Token(frozenset(), skips=True), _Token(_ANY, repeats=True), _Token(frozenset(b"/"))]


class WildcardPattern:
    """One pattern with wildcards. `pathname`: `*`, `?` and `[...]` do not match a slash, and `**` may."""

    def __init__(self, pattern: bytes, *, pathname: bool) -> None:
        self._tokens = _parse_tokens(pattern, pathname)
        self._shortest = sum(not token.repeats and bool(token.takes) for token in self._tokens) - sum(
            token.skips for token in self._tokens
        )
        self._ending = _find_fixed_ending(self._tokens)

    @cached_property
    def _transitions(self) -> tuple[list[int], list[int]]:
        """Two tables by byte: the states that accept it and advance, and those that accept it and remain."""
        on, stay = [0] * 256, [0] * 256
        for index, token in enumerate(self._tokens):
            table = stay if token.repeats else on
            for byte in token.takes:
                table[byte] |= 1 << index
        return on, stay

    @cached_property
    def _empty_moves(self) -> tuple[int, int]:
        """The states that can advance without a byte: by one, and by three."""
        one = sum(1 << index for index, token in enumerate(self._tokens) if token.repeats or token.skips)
        return one, sum(1 << index for index, token in enumerate(self._tokens) if token.skips)

    def matches(self, text: bytes) -> bool:
        """True if all of the text is matched."""
        if len(text) < self._shortest or not text.endswith(self._ending):
            return False
        on, stay = self._transitions
        states = self._add_empty_moves(1)
        for byte in text:
            states = self._add_empty_moves((states & on[byte]) << 1 | states & stay[byte])
            if not states:
                return False
        return bool(states >> len(self._tokens) & 1)

    def _add_empty_moves(self, states: int) -> int:
        one, three = self._empty_moves
        while (wider := states | (states & one) << 1 | (states & three) << 3) != states:
            states = wider
        return states


def _parse_tokens(pattern: bytes, pathname: bool) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(pattern):
        match pattern[position : position + 1]:
            case b"*":
                position = _parse_star(pattern, position, pathname, tokens)
            case b"?":
                tokens.append(_Token(_NAME if pathname else _ANY))
                position += 1
            case b"[":
                byte_set, position = _parse_bracket(pattern, position + 1)
                tokens.append(_Token(byte_set - {_SLASH} if pathname else byte_set))
            case b"\\":
                if position + 1 == len(pattern):
                    raise _MalformedPattern
                tokens.append(_Token(frozenset(pattern[position + 1 : position + 2])))
                position += 2
            case one:
                tokens.append(_Token(frozenset(one)))
                position += 1
    return tokens


def _parse_star(pattern: bytes, position: int, pathname: bool, into: list[_Token]) -> int:
    """Parse one or more stars; return the position after them."""
    end = position
    while pattern[end : end + 1] == b"*":
        end += 1
    rest = pattern[end:]
    starts = position == 0 or pattern[position - 1] == _SLASH
    crosses = end - position > 1 and starts and (not rest or rest.startswith((b"/", b"\\/")))
    if pathname and not crosses:
        into.append(_Token(_NAME, repeats=True))
    elif pathname and rest.startswith(b"/"):
        # Zero or more directories, including the slash. A repetition is equivalent to one.
        into += _DIRECTORIES if into[-3:] != _DIRECTORIES else []
        end += 1
    else:
        into.append(_Token(_ANY, repeats=True))
    return end


def _parse_bracket(pattern: bytes, position: int) -> tuple[frozenset[int], int]:
    """Return the bytes that a bracket matches, and the position after it; `position` is after the opening bracket."""
    is_negated = pattern[position : position + 1] in {b"!", b"^"}
    position += is_negated
    byte_set, previous, first = set[int](), 0, True
    while first or pattern[position : position + 1] != b"]":
        first = False
        one = pattern[position : position + 1]
        if not one:
            raise _MalformedPattern
        if one == b"-" and previous and pattern[position + 1 : position + 2] not in {b"", b"]"}:
            last, position = _parse_escaped(pattern, position + 1)
            byte_set.update(range(previous, last + 1))
            previous = 0
        elif pattern.startswith(b"[:", position) and (class_name := _parse_class_name(pattern, position)):
            byte_set.update(_CLASSES[class_name])
            position, previous = position + len(class_name) + 3, 0
        else:
            previous, position = _parse_escaped(pattern, position)
            byte_set.add(previous)
        position += 1
    return (_ANY - byte_set if is_negated else frozenset(byte_set)), position + 1


def _parse_escaped(pattern: bytes, position: int) -> tuple[int, int]:
    """Return the byte, and its position, which is one further after a backslash."""
    position += pattern[position : position + 1] == b"\\"
    if position >= len(pattern):
        raise _MalformedPattern
    return pattern[position], position


def _parse_class_name(pattern: bytes, position: int) -> str:
    """Return the name of a class `[:name:]`; "" if there is none."""
    end = pattern.find(b"]", position + 2)
    if end < 0:
        raise _MalformedPattern
    if end - position < 3 or pattern[end - 1 : end] != b":":
        return ""
    name = pattern[position + 2 : end - 1].decode("latin-1")
    if name not in _CLASSES:
        raise _MalformedPattern
    return name


def _find_fixed_ending(tokens: Sequence[_Token]) -> bytes:
    ending = bytearray()
    for index in range(len(tokens) - 1, -1, -1):
        if (
            tokens[index].repeats
            or len(tokens[index].takes) != 1
            or any(t.skips for t in tokens[max(index - 2, 0) : index])
        ):
            break
        ending += bytes(tokens[index].takes)
    return bytes(reversed(ending))


class _IgnoreLine(Struct, frozen=True):
    """One pattern of a file. `name`: it is compared only with the last part of a path.

    `prefix`: the literal part up to the first wildcard; `wild`: the rest, None: there is none.
    """

    prefix: bytes
    wild: WildcardPattern | None
    includes: bool
    directory: bool
    name: bool

    def matches(self, path: bytes, name: bytes, is_dir: bool) -> bool:
        if self.directory and not is_dir:
            return False
        text = name if self.name else path
        if self.wild is None:
            return text == self.prefix
        return text.startswith(self.prefix) and self.wild.matches(text[len(self.prefix) :])


class IgnorePatterns:
    """The patterns of one file, as gitignore(5) defines them. `folds`: they ignore case and normal form, as git does
    where the file system does (`core.ignoreCase`, `core.precomposeUnicode`)."""

    def __init__(self, data: bytes, *, folds: bool = False) -> None:
        self._folds = folds
        data = _fold(data) if folds else data
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        self._lines = [ignore_line for line in reversed(lines) if (ignore_line := _parse_line(line)) is not None]

    def match(self, path: bytes, is_dir: bool) -> bool | None:
        """Return True if the path, below the file's directory, is ignored, False if re-included, None if neither."""
        path = _fold(path) if self._folds else path
        name = path.rpartition(b"/")[2]
        for line in self._lines:
            if line.matches(path, name, is_dir):
                return line.includes
        return None


def _fold(text: bytes) -> bytes:
    return fold_spelling(text).encode("utf-8", "surrogateescape")


class OuterPatterns(Struct, frozen=True):
    """The patterns of a file above the workspace; `prefix`: the path from there to the workspace, with a slash."""

    patterns: IgnorePatterns
    prefix: bytes

    def match(self, path: bytes, is_dir: bool) -> bool | None:
        """Match a path below the workspace, as `IgnorePatterns.match` does."""
        return self.patterns.match(self.prefix + path, is_dir)


def _parse_line(line: bytes) -> _IgnoreLine | None:
    if line.startswith(b"#"):
        return None
    pattern = _strip_trailing_blanks(line.removesuffix(b"\r"))
    includes = not pattern.startswith(b"!")
    pattern = pattern if includes else pattern[1:]
    directory = pattern.endswith(b"/")
    pattern = pattern[:-1] if directory else pattern
    if not pattern:
        return None
    name = b"/" not in pattern
    pattern = pattern.removeprefix(b"/")
    end = next((index for index, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
    try:
        wild = WildcardPattern(pattern[end:], pathname=not name) if end < len(pattern) else None
    except _MalformedPattern:
        return None
    return _IgnoreLine(pattern[:end], wild, includes, directory, name)


def _strip_trailing_blanks(line: bytes) -> bytes:
    """Strip trailing blanks, except those after a backslash."""
    end = position = 0
    while position < len(line):
        if line[position : position + 1] == b"\\":
            position += 1
            if position >= len(line):
                return line
            end = position + 1
        elif line[position : position + 1] != b" ":
            end = position + 1
        position += 1
    return line[:end]
