"""Proves a change: runs the project's check over variants of the pending text and says what it tells of each hunk.

The order is that of worth by cost: the run over the text as it is, the canary, old and new tests, hunks taken out one
by one, small changes of lines. Each piece of evidence is reported as soon as it is there, so that a proof which is
stopped was not for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.clock import monotonic
from core.patterns import compile_lazily
from core.proof.classes.uniform_edits import Place
from core.proof.findings import Findings, ProofReport
from core.proof.hunk_classes import ChangedText
from core.proof.runs.executed_lines import HunkExecution, find_execution, list_executable_lines
from core.proof.runs.records import RunRecord
from core.proof.runs.variant_runs import VariantResult, VariantRuns
from core.proof.variants.ablation import Ablation, Ablator, BaseRun, build_variant
from core.proof.variants.canary import choose_canary, is_noticed
from core.proof.variants.linked_hunks import HunkLines, find_group
from core.proof.variants.mutants import Mutation, list_mutations
from core.proof.variants.old_and_new import compare_old_and_new
from core.protocol.evidence import CheckEvidence, HunkEvidence, Mutant
from core.protocol.review import Hunk
from core.shell.verification.clean_layer import FileVariant
from core.shell.verification.steering_files import is_test_file

MOST_SECONDS: Final = 600.0  # of a run over the whole text
LONG_SUITE: Final = 60.0  # seconds: a longer one is not run for each hunk
MOST_HUNKS: Final = 25
MOST_MUTANTS: Final = 12  # of a review
MUTANTS_OF_HUNK: Final = 2
_PYTHON: Final = (".py",)
PROVES_NOTHING: Final = "The check did not notice a fault in code that it claims to run."
NO_TESTS: Final = "The check ran no test."
FAILS: Final = "The check fails over these changes."
SLOW: Final = "the check takes {:.0f} s"
OUT_OF_TIME: Final = "there was no time"
_BRANCH: Final = compile_lazily(
    r"\s*(?:\}\s*)?(?:if|elif|else|except|catch|finally|raise|throw|assert|guard|return|case|match|switch|when)\b"
)


class ProofBudget(Struct, frozen=True, kw_only=True):
    """Limits of one proof. `seconds`: for everything after the first run; `with_mutants`: lines are changed, too."""

    seconds: float = 60.0
    hunks: int = MOST_HUNKS
    with_mutants: bool = True


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
        self._findings = Findings(texts, command, report, known)
        self._texts, self._hunks = self._findings.texts, self._findings.hunk_by_place
        self._runs, self._budget = runs, budget
        self._deadline = 0.0
        self._base = BaseRun(0.0)

    async def prove(self) -> ProvenChange:
        """Prove what the budget allows; cancelling stops it. Raises `AgentTuiError` if nothing can be run."""
        self._findings.report_all()
        record = await self._run_base()
        self._deadline = monotonic() + self._budget.seconds
        if not self._findings.check.problem:
            await self._try_canary(record)
        if not self._findings.check.problem:
            await self._compare_old_and_new(record)
            await self._take_out_hunks(record)
        if not self._findings.check.problem and self._budget.with_mutants:
            await self._change_lines()
        self._findings.update_check(runs=self._runs.count, run_seconds=round(self._runs.seconds, 1))
        return ProvenChange(self._findings.check, tuple(self._findings.evidence.values()))

    # the check itself

    async def _run_base(self) -> RunRecord:
        """Run the check over the text as it is. What fails also without the change is left out of all other runs."""
        run = await self._runs.run(has_lines=True, seconds=MOST_SECONDS)
        failing = _list_failing(run)
        known = frozenset[str]()
        if failing and not run.is_unclear:
            variants = {path: build_variant(text, text.change.hunks) for path, text in self._texts.items()}
            known = failing & _list_failing(await self._runs.run(variants, seconds=MOST_SECONDS))
        self._runs.left_out = known
        tests = {end.test for end in run.record.ends if end.phase != "collect"} - known
        self._base = BaseRun(run.result.duration_ms / 1000, len(tests))
        problem = "" if run.is_green or (known and failing == known) else FAILS
        if run.record.collected == 0 or run.is_unclear:
            problem = NO_TESTS
        self._findings.update_check(
            tests=len(tests),
            seconds=round(self._base.seconds, 2),
            failing=tuple(sorted(failing - known)),
            known_failing=tuple(sorted(known)),
            problem=problem,
        )
        return run.record

    async def _try_canary(self, record: RunRecord) -> None:
        paths = [path for path in self._texts if path.endswith(_PYTHON) and not is_test_file(path)]
        canary = choose_canary(self._texts, record, paths)
        if canary is None:
            return
        noticed = await is_noticed(canary, self._texts[canary.path], self._runs, self._base.limit)
        problem = "" if noticed else PROVES_NOTHING
        self._findings.update_check(canary="noticed" if noticed else "missed", problem=problem)

    async def _compare_old_and_new(self, record: RunRecord) -> None:
        tests = {path: text for path, text in self._texts.items() if self._findings.get_kind(path) == "test"}
        code = {path: text for path, text in self._texts.items() if self._findings.get_kind(path) == "code"}
        sides = await compare_old_and_new(tests, code, record, self._runs, self._base.limit)
        self._findings.update_check(broken_old=sides.broken_old, red_new=sides.red_new, green_new=sides.green_new)

    # the hunks

    async def _take_out_hunks(self, record: RunRecord) -> None:
        executions = {place: self._find_execution(record, place) for place in self._findings.list_places("code")}
        for place, execution in executions.items():
            self._update(place, executed=execution.executed, not_run=execution.not_run, tests=len(execution.tests))
        is_slow = self._base.seconds > LONG_SUITE
        ablator = Ablator(self._runs, self._base, is_test_file, confirms=not is_slow)
        places = [place for place in executions if place not in self._findings.known]
        for index, place in enumerate(sorted(places, key=lambda place: self._rank(place, executions[place]))):
            execution = executions[place]
            if is_slow and not execution.tests:
                self._update(place, unknown=SLOW.format(self._base.seconds))
            elif index >= self._budget.hunks or monotonic() > self._deadline:
                self._update(place, unknown=OUT_OF_TIME)
            else:
                await self._take_out(ablator, place, executions, record)

    async def _take_out(
        self, ablator: Ablator, place: Place, executions: Mapping[Place, HunkExecution], record: RunRecord
    ) -> None:
        execution = executions[place]
        result = await ablator.take_out(self._texts, {place[0]: [self._hunks[place]]}, execution)
        group = self._find_group(place) if result.needed == "used" else (place,)
        if len(group) > 1:
            hunks = dict[str, list[Hunk]]()
            for path, hunk in group:
                hunks.setdefault(path, []).append(self._hunks[path, hunk])
            tests = frozenset[str]().union(*(executions[other].tests for other in group if other in executions))
            together = await ablator.take_out(self._texts, hunks, replace(execution, tests=tests))
            if together.needed in ("checked", "unnoticed"):
                self._record(place, together, tuple(hunk for _, hunk in group), record)
                return
        self._record(place, result, (), record)

    def _record(self, place: Place, ablation: Ablation, group: tuple[str, ...], record: RunRecord) -> None:
        self._update(
            place,
            needed=ablation.needed,
            by_tests=ablation.by_tests,
            message=ablation.message,
            is_confirmed=ablation.is_confirmed,
            unknown=ablation.unknown,
            group=group,
            depends_on=self._findings.find_dependencies(ablation.by_tests, record),
        )

    def _find_group(self, place: Place) -> tuple[Place, ...]:
        kinds = self._findings.classes
        lines = {other: self._read_lines(other) for other in self._hunks if kinds[other].kind != "test"}
        return find_group(place, lines)

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

    async def _change_lines(self) -> None:
        drawn = 0
        for place, evidence in list(self._findings.evidence.items()):
            if evidence.needed != "checked" or evidence.group or evidence.mutants:
                continue
            for mutation in self._draw(place):
                if drawn >= MOST_MUTANTS or monotonic() > self._deadline:
                    return
                drawn += 1
                await self._try_mutation(place, mutation)

    def _draw(self, place: Place) -> list[Mutation]:
        hunk, evidence = self._hunks[place], self._findings.evidence[place]
        lines = set(range(hunk.new_start, hunk.new_start + hunk.new_lines)) - set(evidence.not_run)
        text = self._texts[place[0]].pending.decode("utf-8", "replace")
        return list_mutations(place[0], text, lines)[:MUTANTS_OF_HUNK]

    async def _try_mutation(self, place: Place, mutation: Mutation) -> None:
        text, evidence = self._texts[place[0]], self._findings.evidence[place]
        variant = {place[0]: FileVariant(mutation.apply(text.pending), text.change.pending.mode)}
        tests = frozenset(evidence.by_tests)
        result = await self._runs.run(variant, tests=tests, is_brief=True, seconds=self._base.limit)
        if result.is_green or result.is_unclear:
            result = await self._runs.run(variant, is_brief=True, seconds=self._base.limit)
        by_test = next((end.test for end in result.record.failures), "")
        mutant = Mutant(
            line=mutation.line, old=mutation.old, new=mutation.new, is_noticed=not result.is_green, by_test=by_test
        )
        depends_on = evidence.depends_on if mutant.is_noticed else ()
        self._update(place, mutants=(*evidence.mutants, mutant), depends_on=depends_on)

    # helpers

    def _update(self, place: Place, **fields: object) -> None:
        self._findings.update(place, **fields)

    def _find_execution(self, record: RunRecord, place: Place) -> HunkExecution:
        text = self._texts[place[0]]
        is_python = place[0].endswith(_PYTHON)
        executable = list_executable_lines(text.pending.decode("utf-8", "replace")) if is_python else None
        return find_execution(record, place[0], self._hunks[place], executable)

    def _read_lines(self, place: Place) -> HunkLines:
        text, hunk = self._texts[place[0]], self._hunks[place]
        old, new = (data.decode("utf-8", "replace").split("\n") for data in (text.base, text.pending))
        return HunkLines(old[hunk.old_start - 1 :][: hunk.old_lines], new[hunk.new_start - 1 :][: hunk.new_lines])


def _list_failing(run: VariantResult) -> frozenset[str]:
    return frozenset(end.test for end in run.record.failures)
