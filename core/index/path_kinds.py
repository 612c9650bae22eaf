"""Kinds of paths that a query seldom means, by their spelling: tests, documents, third-party code …"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from core.patterns import compile_lazily


class PathKind(StrEnum):
    TESTS = "tests"
    EXAMPLES = "examples"
    DOCUMENTS = "documents"
    DATA = "data"
    FOREIGN = "foreign"
    STUBS = "stubs"


PENALTIES: Final = {
    PathKind.TESTS: 0.3,
    PathKind.EXAMPLES: 0.35,
    PathKind.DOCUMENTS: 0.35,
    PathKind.DATA: 0.4,
    PathKind.FOREIGN: 0.35,
    PathKind.STUBS: 0.6,
}
"""The factor on the score of a path for every kind that it has."""

WANTED_PENALTY: Final = 0.8
"""The factor for a kind that the query asks for: one that mentions tests may still be about the tested code."""

_SECONDARY: Final = frozenset({PathKind.TESTS, PathKind.EXAMPLES, PathKind.FOREIGN})
_FOLDERS: Final = {
    PathKind.TESTS: (
        "tests?|testing|__tests__|specs?|e2e|fixtures|__mocks__|__snapshots__|test[-_]?data|features|playground"
    ),
    PathKind.EXAMPLES: "examples?|samples?|demos?|tutorials?|benchmarks?|bench|notebooks",
    PathKind.DOCUMENTS: r"docs?|documentation|website|changelog\w*|releases?|\.changeset|\.github|news",
    PathKind.DATA: "locales?|translations|i18n",
    PathKind.FOREIGN: "vendor|vendored|_vendor|third[-_]party|deps|dist|node_modules|externals?|site-packages",
    PathKind.STUBS: "typeshed",
}
_NAMES: Final = {
    PathKind.TESTS: (
        r"test_[^/]*|tests?\.[^/]*|conftest\.py|[^/]*[._-](?:test|spec)s?\.[^/]+|[^/]*_(?:test|spec)\.\w+"
        r"|[^/]*(?-i:Tests?)\.(?:java|cs|kt|php|swift)"
    ),
    PathKind.EXAMPLES: r"[^/]*[._-](?:example|sample)\.\w+",
    PathKind.DOCUMENTS: r"[^/]*\.(?:md|rst|adoc|mdx|txt|tex)|changelog[^/]*|changes|history",
    PathKind.DATA: (
        r"[^/]*\.(?:json|ya?ml|toml|lock|cfg|ini|csv|svg|html?|css|scss|less|sh|mk|po|xml|snap)|makefile|setup\.py"
        r"|\.[^/]*|[^/]*rc"
    ),
    PathKind.FOREIGN: r"[^/]*[.-]min\.\w+",
    PathKind.STUBS: r"[^/]*\.(?:pyi|d\.ts)",
}
_ASKED: Final = {
    PathKind.TESTS: "tests?|specs?|fixtures?|testing",
    PathKind.EXAMPLES: "examples?|demos?|samples?|tutorials?|benchmarks?",
    PathKind.DOCUMENTS: "docs?|documentation|readme|changelog|guide",
    PathKind.DATA: "config file|configuration|css|stylesheets?|html|templates?|json|ya?ml|toml|workflow|translations?",
    PathKind.FOREIGN: "vendor|vendored|third[- ]party",
    PathKind.STUBS: "stubs?|typeshed|declaration files?",
}
_PATH_PATTERNS: Final = {
    kind: compile_lazily(rf"(?:^|/)(?:(?:{_FOLDERS[kind]})/|(?:{_NAMES[kind]})$)", re.IGNORECASE) for kind in PathKind
}
_QUESTIONS: Final = {kind: compile_lazily(rf"\b(?:{words})\b", re.IGNORECASE) for kind, words in _ASKED.items()}


@lru_cache(maxsize=1 << 16)
def list_kinds(path: str) -> tuple[PathKind, ...]:
    """Return the kinds of a path; () = the project's own code."""
    return tuple(kind for kind, pattern in _PATH_PATTERNS.items() if pattern.search(path))


def is_secondary_path(path: str) -> bool:
    """True if a path is of tests, examples or third-party code."""
    return not _SECONDARY.isdisjoint(list_kinds(path))


def list_wanted_kinds(line: str) -> frozenset[PathKind]:
    """Return the kinds of paths that the first line of a query asks for."""
    return frozenset(kind for kind, pattern in _QUESTIONS.items() if pattern.search(line))


def weigh_path(path: str, requested_kinds: frozenset[PathKind]) -> float:
    """Return the factor on the score of a path."""
    weight = 1.0
    for kind in list_kinds(path):
        weight *= max(PENALTIES[kind], WANTED_PENALTY) if kind in requested_kinds else PENALTIES[kind]
    return weight
