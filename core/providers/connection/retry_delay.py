"""For how long a model API asks to be left alone: in its headers, in its body, or in its words."""

from __future__ import annotations

import datetime
import email.utils
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

_SPAN: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_UNITS: Final = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_WORDS: Final = re.compile(
    r"(?:try again in|retry (?:in|after)|wait) +(?P<span>(?:\d+(?:\.\d+)?(?:ms|[dhms]))+(?![a-z])"
    r"|\d+(?:\.\d+)? *(?P<unit>milliseconds|seconds?|minutes?))",
    re.IGNORECASE,
)
_WORD_SECONDS: Final = {"milliseconds": 0.001, "second": 1.0, "seconds": 1.0, "minute": 60.0, "minutes": 60.0}
_NUMBER: Final = re.compile(r"\s*\d+(\.\d+)?\s*")
_MILLISECONDS_SINCE_1970: Final = 100_000_000_000  # larger numbers of a clock are no seconds
_DEPTH: Final = 6


def parse_wait(headers: Mapping[str, str], body: object = None, text: str = "") -> float | None:
    """Seconds that a server wants to be left alone, from whatever it says most exactly; None: it does not say."""
    # OpenRouter passes the headers of the server behind it on in `error.metadata.headers`.
    inner = (mapping["headers"] for mapping in _walk_mappings(body) if isinstance(mapping.get("headers"), dict))
    waits = (_parse_retry_after(headers), _parse_retry_info(body), _parse_words(text))
    resets = (_parse_reset(headers), _parse_reset(next(inner, {})))
    return next((max(0.0, seconds) for seconds in (*waits, *resets) if seconds is not None), None)


def _parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """`retry-after-ms`, `retry-after` in seconds or as a date."""
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds:
            return float(milliseconds) / 1000
        if value and _NUMBER.fullmatch(value):
            return float(value)
        return email.utils.parsedate_to_datetime(value).timestamp() - time.time() if value else None
    except (TypeError, ValueError, OverflowError):
        return None


def _parse_retry_info(body: object) -> float | None:
    """Google's `RetryInfo`: {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "22.5s"}."""
    delays = (mapping.get("retryDelay") for mapping in _walk_mappings(body))
    spans = (parse_duration(delay) for delay in delays if isinstance(delay, str))
    return next((span for span in spans if span is not None), None)


def _parse_words(text: str) -> float | None:
    """ "Please try again in 1m0.36s", "Please retry after 26 seconds"."""
    match = _WORDS.search(text)
    if match is None:
        return None
    if unit := match["unit"]:
        return float(match["span"].removesuffix(unit)) * _WORD_SECONDS[unit.lower()]
    return parse_duration(match["span"])


def _parse_reset(headers: Mapping[str, str]) -> float | None:
    """Seconds until the limits are full again of which nothing is left."""
    fields = {str(name).lower(): str(value) for name, value in headers.items()}
    waits = []
    for name, value in fields.items():
        if "ratelimit" not in name or "reset" not in name:
            continue
        remaining = fields.get(name.replace("reset", "remaining"))
        if remaining is not None and _NUMBER.fullmatch(remaining) and float(remaining) <= 0:
            waits.append(_parse_moment(value))
    return max((wait for wait in waits if wait is not None), default=None)


def _parse_moment(value: str) -> float | None:
    """Seconds until a reset that is a span ("2m59.56s"), a clock (1741305600000, 1741305600) or a date of RFC 3339."""
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number > _MILLISECONDS_SINCE_1970:
            return number / 1000 - time.time()
        return number - time.time() if number > 1_000_000_000 else number
    if (span := parse_duration(value)) is not None:
        return span
    try:
        return datetime.datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp() - time.time()
    except ValueError:
        return None


def parse_duration(span: str) -> float | None:
    """Seconds of "1h2m3.5s", "22s", "60ms"; None for anything else."""
    match = _SPAN.fullmatch(span.strip())
    if match is None or not any(match.groups()):
        return None
    return sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS, strict=True) if part)


def _walk_mappings(value: object, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for child in value:
            yield from _walk_mappings(child, depth + 1)
