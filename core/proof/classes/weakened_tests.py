"""Tests that check less than before: deleted, skipped, with fewer assertions, or with other expectations.

A test is a function that runners find by its name, or a call of `it` or `test`. What is moved or renamed with all its
assertions is not weakened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from core.patterns import compile_lazily
from core.protocol.review import Hunk
from core.syntax.grammars import parse_syntax
from core.syntax.symbols import find_symbols

if TYPE_CHECKING:
    from tree_sitter import Node

Weakness = Literal["deleted", "skipped", "fewer_assertions", "other_expectation"]

_TEST_NAME: Final = compile_lazily(r"test\w*|Test\w*|\w+_test|it_\w+|should_\w+|Benchmark\w+|Example\w*|Fuzz\w+")
_CALLED_TEST: Final = compile_lazily(r"(?:it|test|specify)(?:\.\w+)*")
_ASSERTION: Final = compile_lazily(
    r"\bassert\w*!?(?=[\s(.])|\bexpect\w*\(|\bpytest\.(?:raises|warns|fail|approx)\b|\.should\b"
    r"|\bt\.(?:Error|Fatal|Fail|equal|deep|same|strict|ok|not|throws|doesNotThrow|is|truthy|falsy|match|fail)\w*\(|\brequire\.\w+\(|\bverify\("
)
_SKIP: Final = compile_lazily(
    r"\bskip\w*\b|\bxfail\b|\bexpectedFailure\b|\b(?:it|test|describe)\.(?:todo|fixme)\b|\bx(?:it|test|describe)\("
    r"|\bt\.Skip\w*\(|#\[ignore|@Disabled\b|@Ignore\b",
    re.IGNORECASE,
)
_COMMENT: Final = compile_lazily(r"\s*(?:#(?!\[)|//|\*)")


class WeakenedTest(Struct, frozen=True):
    """A test that checks less. `line` and `end`: its first and last line (1-indexed) in the pending file, in the base
    if it is deleted; `old` and `new`: its numbers of assertions."""

    path: str
    name: str
    weakness: Weakness
    line: int
    end: int
    old: int
    new: int

    def describe(self) -> str:
        """Describe it: `test_total: 3 assertions became 1`."""
        match self.weakness:
            case "deleted":
                return f"{self.name} was deleted"
            case "skipped":
                return f"{self.name} is skipped"
            case "fewer_assertions":
                return f"{self.name}: {self.old} assertions became {self.new}"
        return f"{self.name} expects something else"


class _Test(Struct, frozen=True):
    path: str
    name: str
    line: int
    text: str

    @property
    def end(self) -> int:
        return self.line + self.text.count("\n")

    @property
    def assertions(self) -> tuple[str, ...]:
        """The lines with assertions, without white space."""
        lines = (line for line in self.text.split("\n") if not _COMMENT.match(line))
        return tuple("".join(line.split()) for line in lines if _ASSERTION.search(line))

    @property
    def is_skipped(self) -> bool:
        return any(_SKIP.search(line) and not _COMMENT.match(line) for line in self.text.split("\n"))


def find_weakened_tests(texts: Mapping[str, tuple[str, str]]) -> list[WeakenedTest]:
    """Compare the tests of files of tests; `texts`: base and pending by path."""
    old = _index(test for path, (base, _) in texts.items() for test in _list_tests(path, base))
    new = _index(test for path, (_, pending) in texts.items() for test in _list_tests(path, pending))
    added = [test for place, test in new.items() if place not in old]
    weakened = list[WeakenedTest]()
    for place, test in old.items():
        if (now := new.get(place)) is not None:
            weakened += _compare(test, now)
        elif not any(set(test.assertions) <= set(other.assertions) for other in added):
            weakened.append(WeakenedTest(test.path, test.name, "deleted", test.line, test.end, len(test.assertions), 0))
    return weakened


def _index(tests: Iterable[_Test]) -> dict[tuple[str, str], _Test]:
    return {(test.path, test.name): test for test in tests}


def _compare(old: _Test, new: _Test) -> Iterator[WeakenedTest]:
    before, after = old.assertions, new.assertions
    counts = (len(before), len(after))
    if new.is_skipped and not old.is_skipped:
        yield WeakenedTest(new.path, new.name, "skipped", new.line, new.end, *counts)
    elif len(after) < len(before):
        yield WeakenedTest(new.path, new.name, "fewer_assertions", new.line, new.end, *counts)
    elif not set(before) <= set(after):
        yield WeakenedTest(new.path, new.name, "other_expectation", new.line, new.end, *counts)


def _list_tests(path: str, text: str) -> Iterator[_Test]:
    lines = text.split("\n")
    for symbol in find_symbols(path, text) or ():
        if symbol.kind in {"function", "method"} and _TEST_NAME.fullmatch(symbol.name):
            above = symbol.first
            while above and lines[above - 1].lstrip().startswith(("@", "#[")):
                above -= 1
            yield _Test(path, symbol.qualified, symbol.first + 1, "\n".join(lines[above : symbol.last + 1]))
    if path.endswith((".js", ".ts", ".jsx", ".tsx", ".mjs", ".cjs", ".mts", ".cts")):
        yield from _list_called_tests(path, text)


def _list_called_tests(path: str, text: str) -> Iterator[_Test]:
    """Yield the calls of `it` and `test`, each with its title as its name."""
    root = parse_syntax(path, text)
    waiting: list[Node] = [root] if root is not None else []
    while waiting:
        node = waiting.pop()
        waiting.extend(node.named_children)
        if node.type != "call_expression":
            continue
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or arguments is None or not _CALLED_TEST.fullmatch(_read(function)):
            continue
        title = next(iter(arguments.named_children), None)
        if title is not None and title.type in ("string", "template_string"):
            yield _Test(path, _read(title).strip("'\"`"), node.start_point[0] + 1, _read(node))


def _read(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def find_touched(path: str, pending: str, hunks: Iterable[Hunk]) -> dict[str, frozenset[str]]:
    """Return the names of the functions of a file of tests that each hunk touches, by hunk."""
    symbols = find_symbols(path, pending) or ()
    return {
        hunk.id: frozenset(
            symbol.name
            for symbol in symbols
            if hunk.new_start - 1 <= symbol.last and hunk.new_start - 1 + max(hunk.new_lines, 1) > symbol.first
        )
        for hunk in hunks
    }
