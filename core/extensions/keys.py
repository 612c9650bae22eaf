"""Keys and values of front matter, checked: what nobody knows is said, and what narrows rights is never guessed at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from core.config.rules.front_matter import FrontMatter, get_text, unquote
from core.extensions.places import UnusableFile
from core.text.similarity import find_nearest_names

MAX_NAME: Final = 64
# What files carry for other readers, and what changes nothing here.
SILENT_KEYS: Final = frozenset(
    {
        *("version", "tags", "license", "metadata", "author", "authors", "category", "categories", "keywords", "icon"),
        *("color", "title", "homepage", "repository", "compatibility", "created", "updated", "date", "type", "status"),
    }
)
_RESTRICTING: Final = re.compile(r"tool|permi|read.?only|sandbox|allow|den[iy]|restrict|forbid|access|capabilit", re.I)
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


def fold_key(key: str) -> str:
    """Return a key without the differences between `maxTurns`, `max_turns` and `max-turns`."""
    return key.lower().replace("-", "").replace("_", "")


def sort_keys(front: FrontMatter, names: Mapping[str, str]) -> tuple[dict[str, str | list[str]], list[str]]:
    """Return the values of the known keys by their name here, and the keys that nobody knows.

    `names`: the name here by the usual spelling; `max-turns` is known where `maxTurns` is. Of two the first counts.
    """
    names_by_key = {fold_key(key): name for key, name in names.items()}
    values: dict[str, str | list[str]] = {}
    unknown = []
    for key, value in front.items():
        if (name := names_by_key.get(fold_key(key))) is not None:
            values.setdefault(name, value)
        elif key.lower() not in SILENT_KEYS:
            unknown.append(key)
    return values, unknown


def describe_unknown_key(key: str, known_keys: Iterable[str]) -> str:
    """Return what is said of a key that nobody knows, with the one that may have been meant."""
    suggestion = next(iter(find_nearest_names(key, known_keys, limit=1)), "")
    return f"nobody knows the key {key!r}{f': did you mean {suggestion!r}?' if suggestion else ''}"


def read_name(name: str, problems: list[str]) -> str:
    """Return a name as it can be written in a prompt. Raises `UnusableFile`."""
    if name.startswith("-") or ":" in name or len(name) > MAX_NAME:
        requirements = f"at most {MAX_NAME} characters, no colon, no - in front"
        raise UnusableFile(f"{name[:MAX_NAME]!r} is no name: {requirements}")
    if not re.search(r"[^\w.-]", name):
        return name
    safe_name = re.sub(r"[^\w.-]+", "-", name).strip("-")
    if not safe_name:
        raise UnusableFile(f"{name!r} is no name")
    problems.append(f"its name {name!r} can't be written in a prompt, so it is called {safe_name!r}")
    return safe_name


def looks_restricting(key: str) -> bool:
    """True if a key that nobody knows may have been meant to narrow what is allowed."""
    return _RESTRICTING.search(key) is not None


def parse_bool(value: str | list[str]) -> bool | None:
    """Parse true or false as YAML spells them; None = it is neither."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return True if text in _TRUE else False if text in _FALSE else None


def parse_names(front: FrontMatter, key: str) -> tuple[str, ...]:
    """Parse names from a string ("a, b"), a flow list ("[a, b]") or a list; commas within parentheses do not part."""
    value = front.get(key, "")
    names = []
    for item in value if isinstance(value, list) else [value]:
        text = item.strip()
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        names += [unquote(part) for part in re.split(r",(?![^(]*\))", text)]
    return tuple(dict.fromkeys(filter(None, names)))


def get_line(front: FrontMatter, key: str) -> str:
    """Return the value of a key as one line, "" = none."""
    return " ".join(get_text(front, key).split())
