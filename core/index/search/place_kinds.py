"""Kinds of places that are seldom what a question means, told by their paths: tests, documents, foreign code …"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final


class PlaceKind(StrEnum):
    TESTS = "tests"
    EXAMPLES = "examples"
    DOCUMENTS = "documents"
    DATA = "data"
    FOREIGN = "foreign"
    STUBS = "stubs"


PENALTIES: Final = {
    PlaceKind.TESTS: 0.3,
    PlaceKind.EXAMPLES: 0.35,
    PlaceKind.DOCUMENTS: 0.35,
    PlaceKind.DATA: 0.4,
    PlaceKind.FOREIGN: 0.35,
    PlaceKind.STUBS: 0.6,
}
"""What the score of a place is multiplied with for each kind that it is of."""

WANTED_PENALTY: Final = 0.8
"""The same for a kind that is asked for: a question that names tests may still be about what they test."""

_BESIDE: Final = frozenset({PlaceKind.TESTS, PlaceKind.EXAMPLES, PlaceKind.FOREIGN})
_FOLDERS: Final = {
    PlaceKind.TESTS: (
        "tests?|testing|__tests__|specs?|e2e|fixtures|__mocks__|__snapshots__|test[-_]?data|features|playground"
    ),
    PlaceKind.EXAMPLES: "examples?|samples?|demos?|tutorials?|benchmarks?|bench|notebooks",
    PlaceKind.DOCUMENTS: r"docs?|documentation|website|changelog\w*|releases?|\.changeset|\.github|news",
    PlaceKind.DATA: "locales?|translations|i18n",
    PlaceKind.FOREIGN: "vendor|vendored|_vendor|third[-_]party|deps|dist|node_modules|externals?|site-packages",
    PlaceKind.STUBS: "typeshed",
}
_NAMES: Final = {
    PlaceKind.TESTS: (
        r"test_[^/]*|tests?\.[^/]*|conftest\.py|[^/]*[._-](?:test|spec)s?\.[^/]+|[^/]*_(?:test|spec)\.\w+"
        r"|[^/]*(?-i:Tests?)\.(?:java|cs|kt|php|swift)"
    ),
    PlaceKind.EXAMPLES: r"[^/]*[._-](?:example|sample)\.\w+",
    PlaceKind.DOCUMENTS: r"[^/]*\.(?:md|rst|adoc|mdx|txt|tex)|changelog[^/]*|changes|history",
    PlaceKind.DATA: (
        r"[^/]*\.(?:json|ya?ml|toml|lock|cfg|ini|csv|svg|html?|css|scss|less|sh|mk|po|xml|snap)|makefile|setup\.py"
        r"|\.[^/]*|[^/]*rc"
    ),
    PlaceKind.FOREIGN: r"[^/]*[.-]min\.\w+",
    PlaceKind.STUBS: r"[^/]*\.(?:pyi|d\.ts)",
}
_ASKED: Final = {
    PlaceKind.TESTS: "tests?|specs?|fixtures?|testing",
    PlaceKind.EXAMPLES: "examples?|demos?|samples?|tutorials?|benchmarks?",
    PlaceKind.DOCUMENTS: "docs?|documentation|readme|changelog|guide",
    PlaceKind.DATA: "config file|configuration|css|stylesheets?|html|templates?|json|ya?ml|toml|workflow|translations?",
    PlaceKind.FOREIGN: "vendor|vendored|third[- ]party",
    PlaceKind.STUBS: "stubs?|typeshed|declaration files?",
}
_PLACES: Final = {
    kind: re.compile(rf"(?:^|/)(?:(?:{_FOLDERS[kind]})/|(?:{_NAMES[kind]})$)", re.IGNORECASE) for kind in PlaceKind
}
_QUESTIONS: Final = {kind: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for kind, words in _ASKED.items()}


@lru_cache(maxsize=1 << 16)
def list_kinds(path: str) -> tuple[PlaceKind, ...]:
    """Return the kinds that a path is of; () is the code of the project itself."""
    return tuple(kind for kind, pattern in _PLACES.items() if pattern.search(path))


def is_beside(path: str) -> bool:
    """True if a path names tests, examples or somebody else's code, which stand beside the source."""
    return not _BESIDE.isdisjoint(list_kinds(path))


def list_wanted_kinds(line: str) -> frozenset[PlaceKind]:
    """Return the kinds of places that a question asks for in its first line."""
    return frozenset(kind for kind, pattern in _QUESTIONS.items() if pattern.search(line))


def weigh_path(path: str, requested_kinds: frozenset[PlaceKind]) -> float:
    """Return what the score of a place is multiplied with."""
    weight = 1.0
    for kind in list_kinds(path):
        weight *= max(PENALTIES[kind], WANTED_PENALTY) if kind in requested_kinds else PENALTIES[kind]
    return weight
