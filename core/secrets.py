"""Keys in memory, and the one place that takes them out of text: whatever is written down goes through `redact`.

A `Secret` says nothing about itself when it is printed, formatted, compared in a traceback or pickled. Its value is
known to `redact` from the moment it exists, so that an error body which echoes a key can't bring it into a log.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NoReturn

from core.text.well_formed import make_well_formed

MASK: Final = "[redacted]"
_MIN_LENGTH: Final = 6  # a shorter value would mask ordinary words
_MIN_MASKED_LENGTH: Final = (
    12  # what local servers take for a key ("ollama", "not-needed") stands in files and answers as a word
)
_known: set[str] = set()
_credentials: set[str] = set()  # of those, what is masked even if it is short: no server takes just any word for it

_PATTERNS: Final = (
    re.compile(
        r"(?<![A-Za-z0-9])(?:sk|pk|rk|gsk|xai|hf|ghp|gho|ghs|github_pat|glpat|AKIA|AIza)[-_]?[A-Za-z0-9_-]{16,}"
    ),
    re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_*.-]{6,}"),
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=*-]{6,}"),
    re.compile(r"""(?i)(?<=api[-_]key)(?P<between>["']?\s*[:=]\s*["']?)[^\s"'&,;}]{6,}"""),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)


class Secret:
    """A key. Only `reveal()` gives its value; call it where the value is sent, and nowhere else."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        register_secret(value)

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


def register_secret(value: str) -> None:
    """Let `redact` know a value that must never be written down."""
    if value not in _known and len(value) >= _MIN_LENGTH and make_well_formed(value) == value:
        _known.add(value)
        list_masked_values.cache_clear()


def register_credential(value: str) -> None:
    """Let every mask know a value out of a store of credentials, as short as passwords are."""
    register_secret(value)
    if value in _known and value not in _credentials:
        _credentials.add(value)
        list_masked_values.cache_clear()


@cache
def list_masked_values() -> tuple[str, ...]:
    """Return the known values that are masked wherever they stand, the longest first."""
    return tuple(
        sorted(
            (value for value in _known if len(value) >= _MIN_MASKED_LENGTH or value in _credentials),
            key=lambda value: (-len(value), value),
        )
    )


def holds_secret(text: str) -> bool:
    """True if a key that is known so far stands in `text`."""
    return any(value in text for value in _known)


def mask_secrets(text: str) -> str:
    """Return `text` without the keys known so far; what merely looks like a key may be what is worked on, and stays."""
    for value in list_masked_values():
        if value in text:
            text = text.replace(value, MASK)
    return text


def count_partial_secret(text: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of a known key."""
    return max((count_overlap(text, value) for value in list_masked_values()), default=0)


def count_overlap(text: str, value: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of a value that is not whole."""
    start = text.find(value[0], max(0, len(text) - len(value) + 1))
    while start >= 0 and not value.startswith(text[start:]):
        start = text.find(value[0], start + 1)
    return len(text) - start if start >= 0 else 0


def redact(text: str) -> str:
    """Return `text` without the keys known so far and without what looks like one."""
    for value in sorted(_known, key=len, reverse=True):
        if value in text:
            text = text.replace(value, MASK)
    for pattern in _PATTERNS:
        text = pattern.sub(_mask_match, text)
    return text


def _mask_match(match: re.Match[str]) -> str:
    return match.groupdict().get("between", "") + MASK
