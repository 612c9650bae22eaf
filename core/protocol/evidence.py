"""Evidence on the wire: what the project's own check says about each pending hunk, and about the check itself."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.ids import Id

HunkKind = Literal[
    "code", "format", "docs", "types", "imports", "move", "rename", "uniform", "generated", "vendored", "test",
    "steering", "binary", "data",
]  # fmt: skip
Executed = Literal["all", "part", "import", "none", "unknown"]
Needed = Literal["checked", "used", "hangs", "same", "removed", "old_tests", "unnoticed", "unknown"]


class Mutant(Struct, frozen=True, kw_only=True):
    """A small change of one line (1-indexed, in the pending file), and whether the check noticed it, by which test."""

    line: int
    old: str
    new: str
    is_noticed: bool
    by_test: str = ""


class HunkEvidence(Struct, frozen=True, kw_only=True):
    """All that is known of one hunk.

    `kind`: what it is without a run. `partner`: the hunk on the other side of a move, or the one that stands for all of
    a uniform edit, whose `substitution` it is. `executed`: which of its lines ran in the tests (`import`: only outside
    of any), `not_run` the others, `tests` in how many. `needed`: what the check did without it: a test failed by an
    assertion (`checked`), something crashed (`used`), it never ended, or nothing failed; `same` = nothing failed, but
    each small change of its lines, or of those of its group, was noticed, so that it may well behave as before;
    `removed` = nothing failed, and whole definitions are gone; `old_tests` = nothing failed, but tests as they were
    before the change fail with it.
    `lost_tests`: tests that fail with it and that the change has taken away, though others check it.
    `by_tests` failed first, with `message`. `is_confirmed`: that nothing failed was seen with the whole check.
    `group`: the hunks that had to be taken out with it. `unknown`: why it was not looked into, "" = it was.
    `depends_on`: the changed files on whose text the runs about it depended, () = all. `is_stale`: one of them was
    edited since. `contract`: what it changes that code elsewhere relies on ("signature of price"), "" = nothing.
    `touched`: of a hunk of tests, the names of the functions that it changes. `claim`: what the agent wrote with the
    call that made the hunk, which is no evidence.
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
    lost_tests: tuple[str, ...] = ()
    is_confirmed: bool = False
    group: tuple[str, ...] = ()
    mutants: tuple[Mutant, ...] = ()
    unknown: str = ""
    depends_on: tuple[str, ...] = ()
    is_stale: bool = False
    contract: str = ""
    touched: tuple[str, ...] = ()
    claim: str = ""


CanaryOutcome = Literal["noticed", "missed", "not_run"]


class CheckEvidence(Struct, frozen=True, kw_only=True):
    """All that is known of the check itself, over the changes as they are.

    `tests`: how many ran, `failing` those that failed, in part also before the change (`known_failing`); `flaky`: those
    that ended differently when nothing was changed. `canary`: whether a fault in a function that it claims to run was
    noticed. `steering`: changed files that decide how it runs. `weakened`: tests that check less, in words, by
    `path:line`. `broken_old`: tests as they were before that fail over the new code; `red_new`: tests of the change
    that fail without it, `green_new` those that do not. `problem`: why it proves nothing, as a sentence, "" = it can.
    """

    command: str
    tests: int = 0
    seconds: float = 0.0
    failing: tuple[str, ...] = ()
    known_failing: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    canary: CanaryOutcome = "not_run"
    steering: tuple[str, ...] = ()
    weakened: tuple[tuple[str, str], ...] = ()
    broken_old: tuple[str, ...] = ()
    red_new: tuple[str, ...] = ()
    green_new: tuple[str, ...] = ()
    problem: str = ""
    runs: int = 0
    run_seconds: float = 0.0
