"""Keys in memory, and their removal from text: whatever is written to a log or a file goes through `redact`.

A `Secret` does not reveal itself when it is printed, formatted, compared in a traceback or pickled. `redact` knows its
value from its creation, so that an error body that echoes a key can't bring it into a log.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NoReturn

from core.patterns import compile_lazily
from core.text.well_formed import make_well_formed

MASK: Final = "[redacted]"
_MIN_LENGTH: Final = 6  # a shorter value would match ordinary words
# Dummy keys of local servers ("ollama", "not-needed") are ordinary words in files and answers.
_MIN_MASKED_LENGTH: Final = 12
_known: set[str] = set()
_credentials: set[str] = set()  # the subset that is masked even if it is short, because it is a real credential

_PATTERNS: Final = (
    compile_lazily(
        r"(?<![A-Za-z0-9])(?:sk|pk|rk|gsk|xai|hf|ghp|gho|ghs|github_pat|glpat|AKIA|AIza)[-_]?[A-Za-z0-9_-]{16,}"
    ),
    compile_lazily(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_*.-]{6,}"),
    compile_lazily(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=*-]{6,}"),
    compile_lazily(r"""(?i)(?<=api[-_]key)(?P<between>["']?\s*[:=]\s*["']?)[^\s"'&,;}]{6,}"""),
    compile_lazily(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)


class Secret:
    """A key. Only `reveal()` returns its value; call it only where the value is sent."""

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
    """Register a value that must never be written."""
    if value not in _known and len(value) >= _MIN_LENGTH and make_well_formed(value) == value:
        _known.add(value)
        list_masked_values.cache_clear()


def register_credential(value: str) -> None:
    """Register a value of a credential store, which may be as short as passwords are."""
    register_secret(value)
    if value in _known and value not in _credentials:
        _credentials.add(value)
        list_masked_values.cache_clear()


@cache
def list_masked_values() -> tuple[str, ...]:
    """Return the known values that are masked anywhere, longest first."""
    return tuple(
        sorted(
            (value for value in _known if len(value) >= _MIN_MASKED_LENGTH or value in _credentials),
            key=lambda value: (-len(value), value),
        )
    )


def holds_secret(text: str) -> bool:
    """True if `text` contains a known key."""
    return any(value in text for value in _known)


def mask_secrets(text: str) -> str:
    """Return `text` without known keys; texts that only look like a key may be part of the work, and stay."""
    for value in list_masked_values():
        if value in text:
            text = text.replace(value, MASK)
    return text


def count_partial_secret(text: str) -> int:
    """Return the number of characters at the end of `text` that may be the start of a known key."""
    return max((count_overlap(text, value) for value in list_masked_values()), default=0)


def count_overlap(text: str, value: str) -> int:
    """Return the number of characters at the end of `text` that may be the incomplete start of a value."""
    start = text.find(value[0], max(0, len(text) - len(value) + 1))
    while start >= 0 and not value.startswith(text[start:]):
        start = text.find(value[0], start + 1)
    return len(text) - start if start >= 0 else 0


def redact(text: str) -> str:
    """Return `text` without known keys and without texts that look like one."""
    for value in sorted(_known, key=len, reverse=True):
        if value in text:
            text = text.replace(value, MASK)
    for pattern in _PATTERNS:
        text = pattern.sub(_mask_match, text)
    return text


def _mask_match(match: re.Match[str]) -> str:
    return match.groupdict().get("between", "") + MASK
