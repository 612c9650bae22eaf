"""Evidence on the wire: what the project's own check says about each pending hunk, and about the check itself."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.ids import Id

HunkKind = Literal[
    "code", "format", "docs", "types", "imports", "move", "rename", "uniform", "generated", "vendored", "test",
    "steering", "binary",
]  # fmt: skip
Executed = Literal["all", "part", "import", "none", "unknown"]
Needed = Literal["checked", "used", "hangs", "unnoticed", "unknown"]


class Mutant(Struct, frozen=True, kw_only=True):
    """A small change of one line (1-indexed, in the pending file), and whether the check noticed it, by which test."""

    line: int
    old: str
    new: str
    is_noticed: bool
    by_test: str = ""


class HunkEvidence(Struct, frozen=True, kw_only=True):
    """What is known of one hunk.

    `kind`: what it is without a run. `partner`: the hunk on the other side of a move, or the one that stands for all of
    a uniform edit, whose `substitution` it is. `executed`: which of its lines ran in the tests (`import`: only outside
    of any), `not_run` the others, `tests` in how many. `needed`: what the check did without it: a test failed by an
    assertion (`checked`), something crashed (`used`), it never ended, or nothing failed; `by_tests` failed first, with
    `message`. `is_confirmed`: that nothing failed was seen with the whole check. `group`: the hunks that had to be
    taken out with it. `unknown`: why it was not looked into, "" = it was.
    """

    path: str
    hunk: Id
    kind: HunkKind
    partner: str = ""
    substitution: str = ""
    executed: Executed = "unknown"
    not_run: tuple[int, ...] = ()
    tests: int = 0
    needed: Needed = "unknown"
    by_tests: tuple[str, ...] = ()
    message: str = ""
    is_confirmed: bool = False
    group: tuple[str, ...] = ()
    mutants: tuple[Mutant, ...] = ()
    unknown: str = ""
