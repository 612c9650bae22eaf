"""Patterns of gitignore(5), matched byte by byte in one pass: the work is bounded by pattern times path.

The meaning of a pattern follows git's own wildmatch.c and dir.c, their peculiarities included. A pattern is a chain of
states, kept as the bits of a number; each byte of a path moves all states on at once (the bit-parallel simulation of an
automaton, Baeza-Yates and Gonnet 1992).
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

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
    """The pattern is malformed: git lets it match nothing."""


class _Token(Struct, frozen=True):
    """One step of a pattern. `takes`: the bytes of one character, or with `repeats` any number of those.

    `skips`: it takes nothing, and the two tokens behind it may be passed over.
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
        self._shortest = sum(not each.repeats and bool(each.takes) for each in self._tokens) - sum(
            each.skips for each in self._tokens
        )
        self._ending = _find_fixed_ending(self._tokens)

    @cached_property
    def _transitions(self) -> tuple[list[int], list[int]]:
        """For each byte, the states that take it and move on, and those that take it and stay."""
        on, stay = [0] * 256, [0] * 256
        for at, token in enumerate(self._tokens):
            table = stay if token.repeats else on
            for byte in token.takes:
                table[byte] |= 1 << at
        return on, stay

    @cached_property
    def _empty_moves(self) -> tuple[int, int]:
        """The states that can be left without a byte: by one, and by three."""
        one = sum(1 << at for at, token in enumerate(self._tokens) if token.repeats or token.skips)
        return one, sum(1 << at for at, token in enumerate(self._tokens) if token.skips)

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
    found: list[_Token] = []
    at = 0
    while at < len(pattern):
        match pattern[at : at + 1]:
            case b"*":
                at = _parse_star(pattern, at, pathname, found)
            case b"?":
                found.append(_Token(_NAME if pathname else _ANY))
                at += 1
            case b"[":
                taken, at = _parse_bracket(pattern, at + 1)
                found.append(_Token(taken - {_SLASH} if pathname else taken))
            case b"\\":
                if at + 1 == len(pattern):
                    raise _MalformedPattern
                found.append(_Token(frozenset(pattern[at + 1 : at + 2])))
                at += 2
            case one:
                found.append(_Token(frozenset(one)))
                at += 1
    return found


def _parse_star(pattern: bytes, at: int, pathname: bool, into: list[_Token]) -> int:
    """Parse one or more stars; return where the pattern goes on after them."""
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    rest = pattern[end:]
    starts = at == 0 or pattern[at - 1] == _SLASH
    crosses = end - at > 1 and starts and (not rest or rest.startswith((b"/", b"\\/")))
    if pathname and not crosses:
        into.append(_Token(_NAME, repeats=True))
    elif pathname and rest.startswith(b"/"):
        # No directory at all, or any number of them: the slash belongs to it. Twice is the same as once.
        into += _DIRECTORIES if into[-3:] != _DIRECTORIES else []
        end += 1
    else:
        into.append(_Token(_ANY, repeats=True))
    return end


def _parse_bracket(pattern: bytes, at: int) -> tuple[frozenset[int], int]:
    """Return the bytes that a bracket matches, and where the pattern goes on; `at` is after the opening one."""
    negated = pattern[at : at + 1] in {b"!", b"^"}
    at += negated
    taken, previous, first = set[int](), 0, True
    while first or pattern[at : at + 1] != b"]":
        first = False
        one = pattern[at : at + 1]
        if not one:
            raise _MalformedPattern
        if one == b"-" and previous and pattern[at + 1 : at + 2] not in {b"", b"]"}:
            last, at = _parse_escaped(pattern, at + 1)
            taken.update(range(previous, last + 1))
            previous = 0
        elif pattern.startswith(b"[:", at) and (named := _parse_class_name(pattern, at)):
            taken.update(_CLASSES[named])
            at, previous = at + len(named) + 3, 0
        else:
            previous, at = _parse_escaped(pattern, at)
            taken.add(previous)
        at += 1
    return (_ANY - taken if negated else frozenset(taken)), at + 1


def _parse_escaped(pattern: bytes, at: int) -> tuple[int, int]:
    """Return the byte that stands there, and its position, which is one further behind a backslash."""
    at += pattern[at : at + 1] == b"\\"
    if at >= len(pattern):
        raise _MalformedPattern
    return pattern[at], at


def _parse_class_name(pattern: bytes, at: int) -> str:
    """Return the name of `[:name:]`; "" where it is no such thing."""
    end = pattern.find(b"]", at + 2)
    if end < 0:
        raise _MalformedPattern
    if end - at < 3 or pattern[end - 1 : end] != b":":
        return ""
    name = pattern[at + 2 : end - 1].decode("latin-1")
    if name not in _CLASSES:
        raise _MalformedPattern
    return name


def _find_fixed_ending(tokens: Sequence[_Token]) -> bytes:
    found = bytearray()
    for at in range(len(tokens) - 1, -1, -1):
        if tokens[at].repeats or len(tokens[at].takes) != 1 or any(t.skips for t in tokens[max(at - 2, 0) : at]):
            break
        found += bytes(tokens[at].takes)
    return bytes(reversed(found))


class _IgnoreLine(Struct, frozen=True):
    """One pattern of a file. `name`: it is compared with the last part of a path only.

    `prefix`: what the path begins with, up to the first wildcard; `wild`: the rest, None: there is none.
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
    """The patterns of one file, as gitignore(5) defines them."""

    def __init__(self, data: bytes) -> None:
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        self._lines = [found for line in reversed(lines) if (found := _parse_line(line)) is not None]

    def match(self, path: bytes, is_dir: bool) -> bool | None:
        """Return True if the path, below the file's directory, is ignored, False if re-included, None if neither."""
        name = path.rpartition(b"/")[2]
        for each in self._lines:
            if each.matches(path, name, is_dir):
                return each.includes
        return None


class OuterPatterns(Struct, frozen=True):
    """The patterns of a file above the workspace; `prefix`: the way from there to the workspace, with a slash."""

    patterns: IgnorePatterns
    prefix: bytes

    def match(self, path: bytes, is_dir: bool) -> bool | None:
        """Return as `IgnorePatterns.match` for a path below the workspace."""
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
    end = next((at for at, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
    try:
        wild = WildcardPattern(pattern[end:], pathname=not name) if end < len(pattern) else None
    except _MalformedPattern:
        return None
    return _IgnoreLine(pattern[:end], wild, includes, directory, name)


def _strip_trailing_blanks(line: bytes) -> bytes:
    """Return the line without the blanks at its end, but for those behind a backslash."""
    kept = at = 0
    while at < len(line):
        if line[at : at + 1] == b"\\":
            at += 1
            if at >= len(line):
                return line
            kept = at + 1
        elif line[at : at + 1] != b" ":
            kept = at + 1
        at += 1
    return line[:kept]
