"""Proves a change: runs the project's check over variants of the pending text and says what it tells of each hunk.

The order is that of worth by cost: the run over the text as it is, the canary, old and new tests, hunks taken out one
by one, small changes of lines. Each piece of evidence is reported as soon as it is there, so that a proof which is
stopped was not for nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from core.clock import monotonic
from core.patterns import compile_lazily
from core.proof.classes.moved_blocks import is_deletion_of_definitions
from core.proof.classes.uniform_edits import Place
from core.proof.findings import Findings, ProofReport
from core.proof.hunk_classes import ChangedText
from core.proof.runs.executed_lines import HunkExecution, find_execution, list_executable_lines
from core.proof.runs.records import ANY_TEST, IMPORT
from core.proof.runs.variant_runs import AT_ONCE, VariantRuns
from core.proof.variants.ablation import Ablation, Ablator
from core.proof.variants.base_runs import BaseRun, run_base
from core.proof.variants.canary import choose_canaries, is_noticed
from core.proof.variants.linked_hunks import HunkLines, find_group, find_missing_name, find_users, is_small_edit
from core.proof.variants.mutants import Mutation, list_lost_values, list_mutations, list_removals
from core.proof.variants.old_and_new import OldAndNewTests
from core.protocol.evidence import CheckEvidence, HunkEvidence, Mutant
from core.protocol.review import Hunk
from core.shell.verification.clean_layer import FileVariant
from core.shell.verification.steering_files import is_test_file
from core.tasks import run_each

LONG_SUITE: Final = 60.0  # seconds: a longer one is not run for each hunk
MOST_HUNKS: Final = 25
MOST_MUTANTS: Final = 24  # of a review
MUTANTS_OF_HUNK: Final = 2
REMOVALS_OF_HUNK: Final = 6
_CANARIES: Final = 3
_ROUNDS: Final = 3  # in which a group of hunks grows
_PYTHON: Final = (".py",)
PROVES_NOTHING: Final = "The check did not notice a fault in code that it claims to run."
OUT_OF_TIME: Final = "there was no time"
PROBLEM: Final = "the check proves nothing"
_BRANCH: Final = compile_lazily(
    r"\s*(?:\}\s*)?(?:if|elif|else|except|catch|finally|raise|throw|assert|guard|return|case|match|switch|when)\b"
)


class ProofBudget(Struct, frozen=True, kw_only=True):
    """Limits of one proof. `seconds`: for everything after the first runs; `suite_seconds`: a check that takes longer
    is not looked into; `with_mutants`: lines are changed, too. `flaky`: the tests of the project that end differently
    without a reason; None = that is not known yet, and a second run tells. `dismissed`: small changes that are useless
    to try, each the path, the old and the new text."""

    seconds: float = 60.0
    suite_seconds: float = LONG_SUITE
    hunks: int = MOST_HUNKS
    with_mutants: bool = True
    flaky: frozenset[str] | None = None
    dismissed: frozenset[tuple[str, str, str]] = frozenset()


class ProvenChange(Struct, frozen=True):
    """The result of a proof."""

    check: CheckEvidence
    hunks: tuple[HunkEvidence, ...]


class Prover:
    """One proof of `texts`, whose check `runs` runs. `report` hears of everything at once, and then of what is new.
    `known`: verdicts that still hold from an earlier proof; those hunks are not taken out again."""

    def __init__(
        self,
        texts: Sequence[ChangedText],
        runs: VariantRuns,
        command: str,
        budget: ProofBudget,
        report: ProofReport,
        known: Mapping[Place, HunkEvidence] | None = None,
    ) -> None:
        self._command, self._report, self._known = command, report, known
        self._runs, self._budget = runs, budget
        self._findings = Findings((), command)
        self._texts = {text.change.path: text for text in texts}
        self._hunks = {(text.change.path, hunk.id): hunk for text in texts for hunk in text.change.hunks}
        self._deadline = 0.0
        self._base = BaseRun()
        self._ablator = Ablator(runs, self._base)
        self._executions = dict[Place, HunkExecution]()

    async def prove(self) -> ProvenChange:
        """Prove what the budget allows; cancelling stops it. Raises `AgentTuiError` if nothing can be run."""
        texts = tuple(self._texts.values())
        self._findings = await asyncio.to_thread(Findings, texts, self._command, self._report, self._known)
        self._findings.report_all()
        await self._run_base()
        self._deadline = monotonic() + self._budget.seconds
        old_and_new = self._prepare_old_and_new()
        if self._can_go_on():
            steps: list[Callable[[], Coroutine[Any, Any, None]]] = [self._begin, partial(self._compare, old_and_new)]
            await run_each(lambda step: step(), steps, at_once=len(steps))
        if self._can_go_on():
            await self._look_further(old_and_new)
        else:
            unknown = self._base.unknown or PROBLEM
            for place in self._findings.list_places("code"):
                if place not in self._findings.known:
                    self._update(place, unknown=unknown)
        self._findings.update_check(runs=self._runs.count, run_seconds=round(self._runs.seconds, 1))
        return ProvenChange(self._findings.check, tuple(self._findings.evidence.values()))

    def _can_go_on(self) -> bool:
        return not (self._findings.check.problem or self._base.unknown)

    # the check itself

    async def _run_base(self) -> None:
        budget = self._budget
        base = await run_base(self._runs, self._texts.values(), suite_seconds=budget.suite_seconds, flaky=budget.flaky)
        self._base, self._ablator = base, Ablator(self._runs, base)
        self._findings.update_check(
            tests=len(base.tests),
            seconds=round(base.seconds, 2),
            failing=tuple(sorted(base.failing)),
            known_failing=tuple(sorted(base.known_failing)),
            flaky=tuple(sorted(base.flaky)),
            problem=base.problem,
        )

    async def _try_canaries(self) -> None:
        """Try a fault, and another one if it is not noticed: code may swallow what is raised in it."""
        paths = [path for path in self._texts if path.endswith(_PYTHON) and not is_test_file(path)]
        canaries = choose_canaries(self._texts, self._base.record, paths, _CANARIES)
        for canary in canaries:
            if await is_noticed(canary, self._texts[canary.path], self._runs, self._base.limit):
                self._findings.update_check(canary="noticed")
                return
        if canaries:
            self._findings.update_check(canary="missed", problem=PROVES_NOTHING)

    def _prepare_old_and_new(self) -> OldAndNewTests:
        tests = {path: text for path, text in self._texts.items() if self._findings.get_kind(path) == "test"}
        code = {path: text for path, text in self._texts.items() if self._findings.get_kind(path) == "code"}
        return OldAndNewTests(tests, code, self._base.record, self._runs, self._base.limit)

    async def _compare(self, old_and_new: OldAndNewTests) -> None:
        sides = await old_and_new.compare()
        self._findings.update_check(broken_old=sides.broken_old, red_new=sides.red_new, green_new=sides.green_new)

    # the hunks

    async def _begin(self) -> None:
        """Try the canary; if it is noticed, take each hunk out."""
        await self._try_canaries()
        if not self._can_go_on():
            return
        self._executions = await asyncio.to_thread(self._find_executions, self._findings.list_places("code"))
        for place, execution in self._executions.items():
            self._update(place, executed=execution.executed, not_run=execution.not_run, tests=len(execution.tests))
        await self._take_out_each(lambda execution: execution.executed != "none")

    async def _look_further(self, old_and_new: OldAndNewTests) -> None:
        """Look into what needs the words of all hunks: what never ran, old tests, small changes of lines, and data."""
        await self._take_out_each(lambda execution: execution.executed == "none")
        groups = self._list_groups(self._executions)
        await run_each(lambda group: self._ask_old_tests(old_and_new, *group), groups.items(), at_once=AT_ONCE)
        if self._budget.with_mutants:
            await self._tell_same(self._executions)
            await self._change_lines(self._executions)
        await self._look_into_data()

    async def _take_out_each(self, is_wanted: Callable[[HunkExecution], bool]) -> None:
        """Take these hunks out in the order in which they are worth it. What never ran has its word without that."""
        executions = self._executions
        places = [place for place in executions if place not in self._findings.known]
        places.sort(key=lambda place: self._rank(place, executions[place]))
        in_budget = {*places[: self._budget.hunks]}

        async def take_out(place: Place) -> None:
            if place in in_budget and monotonic() <= self._deadline:
                await self._take_out(place, executions)
            elif executions[place].executed != "none":
                self._update(place, unknown=OUT_OF_TIME)

        await run_each(take_out, [place for place in places if is_wanted(executions[place])], at_once=AT_ONCE)

    async def _take_out(self, place: Place, executions: Mapping[Place, HunkExecution]) -> None:
        """Take a hunk out; if that only breaks other code, with those that need it."""
        result = await self._ablator.take_out(self._texts, self._collect([place]), executions[place])
        alone, group = result, [place]
        for _ in range(_ROUNDS):
            wider = self._widen(group, result) if result.needed == "used" else group
            if len(wider) == len(group) or monotonic() > self._deadline:
                break
            group = wider
            tests = frozenset[str]().union(*(executions[other].tests for other in group if other in executions))
            execution = HunkExecution(executions[place].executed, tests)
            result = await self._ablator.take_out(self._texts, self._collect(group), execution)
        if len(group) > 1 and result.needed in ("checked", "unnoticed"):
            self._record(place, result, tuple(hunk for _, hunk in group))
        else:
            self._record(place, alone, ())

    def _widen(self, group: list[Place], result: Ablation) -> list[Place]:
        """Return a group with the hunks that ask for the name that is missing, or with all that are linked to it."""
        kinds = self._findings.classes
        lines = {place: self._read_lines(place) for place in self._hunks if kinds[place].kind != "test"}
        users = find_users(find_missing_name(result.message), lines)
        wider = list(dict.fromkeys((*group, *users)))
        return wider if len(wider) > len(group) else list(dict.fromkeys((*group, *find_group(group[0], lines))))

    def _collect(self, places: Iterable[Place]) -> dict[str, list[Hunk]]:
        hunks = dict[str, list[Hunk]]()
        for path, hunk in places:
            hunks.setdefault(path, []).append(self._hunks[path, hunk])
        return hunks

    def _record(self, place: Place, ablation: Ablation, group: tuple[str, ...]) -> None:
        kind = self._findings.classes[place].unless_noticed if ablation.needed == "unnoticed" else ""
        is_gone = ablation.needed == "unnoticed" and self._is_deletion(place)
        self._update(
            place,
            kind=kind or self._findings.evidence[place].kind,
            needed="removed" if is_gone else ablation.needed,
            by_tests=ablation.by_tests,
            message=ablation.message,
            is_confirmed=ablation.is_confirmed,
            unknown=ablation.unknown,
            group=group,
            depends_on=self._findings.find_dependencies(ablation.by_tests, self._base.record),
        )

    def _list_groups(self, places: Iterable[Place]) -> Mapping[frozenset[Place], list[Place]]:
        """Return the hunks of code that were looked into, by all that were taken out with them, themselves among
        them."""
        groups = defaultdict[frozenset[Place], list[Place]](list)
        for place in places:
            evidence = self._findings.evidence[place]
            if evidence.kind == "code" and evidence.needed != "unknown" and place not in self._findings.known:
                group = frozenset(other for other in self._hunks if other[1] in evidence.group)
                groups[group or frozenset((place,))].append(place)
        return groups

    async def _ask_old_tests(
        self, old_and_new: OldAndNewTests, group: frozenset[Place], places: Sequence[Place]
    ) -> None:
        """Name the old tests that fail because of hunks which were taken out together: any of them where no test of
        today notices it, and else those that are gone."""
        if monotonic() > self._deadline:
            return
        unnoticed = [place for place in places if self._findings.evidence[place].needed in ("unnoticed", "removed")]
        tests = await old_and_new.find_broken_by(self._collect(group), only_gone=not unnoticed)
        for place in places if tests else ():
            if place in unnoticed:
                self._update(place, needed="old_tests", by_tests=tests, depends_on=())
            elif gone := tuple(test for test in tests if old_and_new.is_gone(test)):
                self._update(place, lost_tests=gone, depends_on=())

    def _is_deletion(self, place: Place) -> bool:
        """Return True if a file or whole definitions are gone, which a test that is gone with them would miss."""
        text, hunk = self._texts[place[0]], self._hunks[place]
        base = text.base.decode("utf-8", "replace").split("\n")
        return text.change.operation == "delete" or is_deletion_of_definitions(place[0], base, hunk)

    async def _look_into_data(self) -> None:
        """Take changes of data out. That nothing fails says nothing of them: most are read by no test."""
        for place in self._findings.list_places("data"):
            if place in self._findings.known or monotonic() > self._deadline:
                continue
            result = await self._ablator.take_out(self._texts, self._collect([place]), HunkExecution())
            if result.needed not in ("unnoticed", "unknown"):
                self._record(place, result, ())

    def _rank(self, place: Place, execution: HunkExecution) -> tuple[bool, bool, int, int]:
        """Return the order: what takes branches away first, then lines; few tests, small files. What never ran is shown
        as that, whatever the check says without it."""
        hunk = self._hunks[place]
        lines = self._read_lines(place)
        branches = sum(1 if _BRANCH.match(line) else 0 for line in lines.old)
        branches -= sum(1 if _BRANCH.match(line) else 0 for line in lines.new)
        is_less = branches > 0 or hunk.old_lines > hunk.new_lines
        return execution.executed == "none", not is_less, len(execution.tests), len(self._texts[place[0]].pending)

    # small changes of lines

    async def _tell_same(self, executions: Mapping[Place, HunkExecution]) -> None:
        """Tell hunks that change nothing which tests can see from those that they do not look at: code that was written
        anew. What is only added is something new, which they do not see."""
        for members, places in self._list_groups(executions).items():
            group = [place for place in executions if place in members]
            unnoticed = [place for place in places if self._findings.evidence[place].needed == "unnoticed"]
            lines = [self._read_lines(place) for place in group]
            is_new = not any(line.strip() for hunk in lines for line in hunk.old)
            if (
                not unnoticed
                or is_new
                or all(map(is_small_edit, lines))
                or not any(executions[place].in_tests for place in group)
            ):
                continue
            results = {place: list[Ablation]() for place in group}
            for place in group:
                for mutation in self._draw(place, executions[place]):
                    if monotonic() > self._deadline:
                        return
                    results[place].append(await self._try_mutation(place, mutation))
            for place in unnoticed:
                own = results[place] or [result for other in group for result in results[other]]
                if own and all(map(_is_noticed, own)):
                    self._update(place, needed="same")

    async def _change_lines(self, executions: Mapping[Place, HunkExecution]) -> None:
        """Change lines of hunks that are needed; those first whose lack has only broken something."""
        left = MOST_MUTANTS

        async def change(place: Place) -> None:
            nonlocal left
            evidence = self._findings.evidence[place]
            if evidence.needed not in ("checked", "used") or evidence.mutants:
                return
            results = list[tuple[Mutation, Ablation]]()
            for mutation in (*self._draw_removals(place, executions[place]), *self._draw(place, executions[place])):
                if not left or monotonic() > self._deadline:
                    return
                left -= 1
                results.append((mutation, await self._try_mutation(place, mutation)))
            if evidence.needed == "used" and all(_is_noticed(result) for _, result in results):
                self._raise_to_checked(place, results)

        places = sorted(executions, key=lambda place: self._findings.evidence[place].needed != "used")
        await run_each(change, places, at_once=AT_ONCE)

    def _raise_to_checked(self, place: Place, noticed: Sequence[tuple[Mutation, Ablation]]) -> None:
        """A hunk without which something breaks is checked if a test notices that its lines are changed."""
        for mutation, result in noticed:
            if result.needed == "checked":
                message = f"{mutation.describe()}: {result.message}"
                depends_on = self._findings.find_dependencies(result.by_tests, self._base.record)
                self._update(
                    place, needed="checked", by_tests=result.by_tests, message=message, group=(), depends_on=depends_on
                )
                return

    def _draw(self, place: Place, execution: HunkExecution) -> list[Mutation]:
        """Draw changes of lines that tests execute; where there is no bound, number or condition, lost values."""
        own, text = self._list_own_lines(place), self._texts[place[0]].pending.decode("utf-8", "replace")
        lines = own & execution.in_tests if execution.executed != "unknown" else own
        drawn = list_mutations(place[0], text, lines)
        mutations = [one for one in drawn if (place[0], one.old, one.new) not in self._budget.dismissed]
        is_open = len(mutations) < MUTANTS_OF_HUNK and self._findings.evidence[place].needed != "checked"
        lost = list_lost_values(place[0], text, lines) if is_open else []
        return [*mutations, *lost][:MUTANTS_OF_HUNK]

    def _draw_removals(self, place: Place, execution: HunkExecution) -> list[Mutation]:
        """Draw the bodies of the functions that tests execute, of a hunk with several."""
        own, text = self._list_own_lines(place), self._texts[place[0]].pending.decode("utf-8", "replace")
        removals = list_removals(place[0], text, own)
        return [removal for removal in removals if removal.line in execution.in_tests][:REMOVALS_OF_HUNK]

    def _list_own_lines(self, place: Place) -> frozenset[int]:
        hunk = self._hunks[place]
        return frozenset(range(hunk.new_start, hunk.new_start + hunk.new_lines))

    async def _try_mutation(self, place: Place, mutation: Mutation) -> Ablation:
        """Change a line, and return what the check does then."""
        text, evidence = self._texts[place[0]], self._findings.evidence[place]
        change = (mutation.line, mutation.old, mutation.new)
        for mutant in evidence.mutants:  # that were tried with other hunks
            if (mutant.line, mutant.old, mutant.new) == change:
                return Ablation(needed="used" if mutant.is_noticed else "unnoticed")
        variant = {place[0]: FileVariant(mutation.apply(text.pending), text.change.pending.mode)}
        tests = self._base.record.find_tests(place[0], [mutation.line]) - {IMPORT, ANY_TEST}
        result = await self._ablator.try_variant(variant, tests)
        evidence = self._findings.evidence[place]
        is_noticed = result.needed != "unnoticed"
        # That a value is not missed is no gap: one may be assigned only to be on the safe side.
        if result.needed != "unknown" and (is_noticed or not mutation.is_loss):
            by_test = next(iter(result.by_tests), "")
            mutant = Mutant(
                line=mutation.line, old=mutation.old, new=mutation.new, is_noticed=is_noticed, by_test=by_test
            )
            depends_on = evidence.depends_on if is_noticed else ()
            self._update(place, mutants=(*evidence.mutants, mutant), depends_on=depends_on)
        return result

    # helpers

    def _update(self, place: Place, **fields: object) -> None:
        self._findings.update(place, **fields)

    def _find_executions(self, places: Sequence[Place]) -> dict[Place, HunkExecution]:
        record = self._base.record
        executable = {
            path: record.executable.get(path)
            or list_executable_lines(path, self._texts[path].pending.decode("utf-8", "replace"))
            for path in {path for path, _ in places}
        }
        return {
            (path, hunk): find_execution(record, path, self._hunks[path, hunk], executable[path])
            for path, hunk in places
        }

    def _read_lines(self, place: Place) -> HunkLines:
        text, hunk = self._texts[place[0]], self._hunks[place]
        old, new = (data.decode("utf-8", "replace").split("\n") for data in (text.base, text.pending))
        return HunkLines(old[hunk.old_start - 1 :][: hunk.old_lines], new[hunk.new_start - 1 :][: hunk.new_lines])


def _is_noticed(ablation: Ablation) -> bool:
    return ablation.needed not in ("unnoticed", "unknown")
