"""`python -m benchmarks.proof REPOSITORY [--commits N] [--check COMMAND] [--skip N] [--seed N]`: counts seeded faults.

REPOSITORY is a clone with its history. Each commit that changes code becomes the pending change of a session, as it is
(a control) and with faults. A fault counts if the check passes with it; it is found if proof flags the hunk, or the
check itself. A right hunk of code that is flagged is a false alarm. The result is printed, a row for each kind.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.proof.faults import Fault, Files, seed
from core.clock import monotonic
from core.engine import Engine
from core.proof.classes.path_kinds import classify_file
from core.proof.findings import list_recorded
from core.proof.hunk_classes import ChangedText
from core.proof.prover import MOST_HUNKS, ProofBudget, ProvenChange, Prover
from core.proof.runs.commands import parse_command
from core.proof.runs.variant_runs import VariantRuns
from core.proof.variants.base_runs import FAILS, FAILS_ANYHOW
from core.protocol import commands as cmd
from core.protocol.evidence import CheckEvidence, HunkEvidence
from core.protocol.options import EngineOptions
from core.shell.verification.steering_files import is_test_file
from core.state.proof import judge_code


class Clone:
    """A clone, one commit at a time."""

    def __init__(self, source: Path, directory: Path) -> None:
        self.root = directory / "project"
        self._git("clone", "-q", "--no-checkout", str(source), str(self.root), at=directory)

    def _git(self, *words: str, at: Path | None = None) -> bytes:
        return subprocess.run(["git", *words], cwd=at or self.root, check=True, capture_output=True).stdout

    def list_commits(self, skip: int) -> Iterator[str]:
        """Yield the newest commits that change code and tests, without merges, and without the first `skip` of them."""
        for commit in self._git("rev-list", "--no-merges", "HEAD").decode().split():
            paths = self._git("diff-tree", "-r", "--no-commit-id", "--name-only", commit).decode().splitlines()
            code = [path for path in paths if classify_file(path, "") == "code"]
            if code and any(is_test_file(path) for path in paths) and len(paths) < 40:
                if skip:
                    skip -= 1
                else:
                    yield commit

    def read_change(self, commit: str) -> Files:
        """Return the files of a commit, and check out its parent."""
        self._git("checkout", "-q", "-f", f"{commit}^")
        rows = self._git("diff-tree", "-r", "--no-commit-id", "--name-status", "--no-renames", commit).decode()
        names = [row.split("\t", 1) for row in rows.splitlines()]
        return {path: None if status == "D" else self.read(commit, path) for status, path in names}

    def read(self, commit: str, path: str) -> bytes:
        return self._git("show", f"{commit}:{path}")

    def read_parent(self, path: str) -> bytes:
        return (self.root / path).read_bytes() if (self.root / path).is_file() else b""

    def describe(self, commit: str) -> str:
        return self._git("log", "-1", "--format=%h %s", commit).decode().strip()[:70]


class Clock:
    """Hears of evidence, and keeps the seconds until the last hunk got its word; small changes come after that."""

    def __init__(self) -> None:
        self._start, self._judged = monotonic(), set[str]()
        self.seconds = 0.0

    def report_hunk(self, evidence: HunkEvidence) -> None:
        is_judged = evidence.kind != "code" or judge_code(evidence).word != "unknown"
        if is_judged and evidence.hunk not in self._judged:
            self._judged.add(evidence.hunk)
            self.seconds = monotonic() - self._start

    def report_check(self, evidence: CheckEvidence) -> None:
        pass


@contextlib.asynccontextmanager
async def open_runs(root: Path, files: Files, command: str) -> AsyncIterator[tuple[VariantRuns, list[ChangedText]]]:
    """Make a change pending in a session of its own, and open runs of a check over it."""
    engine = Engine(root, options=EngineOptions(watch=False, trust=True, preload=False))
    try:
        ack = await engine.submit(cmd.SessionOpen(model="scripted/none"))
        session = engine._sessions[ack.session]
        for path, data in files.items():
            session.shadow.delete(path) if data is None else session.shadow.write(path, data)
        await session.terminal.find_box()
        texts = read_texts(session)
        changes = dict(session.review.changes)
        runs = VariantRuns(session.terminal.host, changes, parse_command(command), list_recorded(texts))
        try:
            await runs.open()
            yield runs, texts
        finally:
            await runs.close()
    finally:
        await engine.close()


async def prove(
    root: Path, files: Files, command: str, budget: ProofBudget, clock: Clock | None = None
) -> tuple[ProvenChange, list[ChangedText]]:
    """Prove a change."""
    async with open_runs(root, files, command) as (runs, texts):
        return await Prover(texts, runs, command, budget, clock or Clock()).prove(), texts


def read_texts(session: object) -> list[ChangedText]:
    shadow, review = session.shadow, session.review  # type: ignore[attr-defined]
    return [
        ChangedText(change, shadow.read_base(change), shadow.read(change.path) or b"")
        for change in review.changes.values()
    ]


def is_flagged(hunk: HunkEvidence) -> bool:
    """True if a hunk is shown as one to look at."""
    return hunk.kind == "code" and judge_code(hunk).word in ("never_ran", "unnoticed")


class Findings(Struct, frozen=True):
    """By what a fault is found. `flags`: words that a reviewer sees; `details`: those behind them; `others`: what would
    have been a flag if the hunk that is the same without it had one."""

    flags: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def find_reasons(proven: ProvenChange, texts: Sequence[ChangedText], fault: Fault) -> Findings:
    """Return by what a fault is found."""
    check, flags, details, others = proven.check, list[str](), list[str](), list[str]()
    if check.problem:
        flags.append("the check proves nothing")
    if check.weakened:
        flags.append("weakened")
    for hunk in proven.hunks:
        if fault.place is None or not _contains(texts, hunk, fault.place):
            continue
        if is_flagged(hunk):
            flags.append("never ran" if hunk.executed == "none" else "unnoticed")
        if hunk.needed in ("same", "old_tests"):
            others.append(hunk.needed)
        if fault.place[1] in hunk.not_run and hunk.executed != "none":
            details.append("line never ran")
        alive = [mutant for mutant in hunk.mutants if (mutant.old, mutant.new) != (fault.new, fault.old)]
        if any(not mutant.is_noticed for mutant in alive):
            details.append("mutant")
        if not flags and not details:
            others.append(
                f"{hunk.kind} {hunk.executed}, {hunk.needed} {hunk.unknown} by {hunk.by_tests[:1]} {hunk.message}"
            )
    return Findings(tuple(flags), tuple(details), tuple(others))


def _contains(texts: Sequence[ChangedText], hunk: HunkEvidence, place: tuple[str, int]) -> bool:
    change = next(text.change for text in texts if text.change.path == hunk.path)
    lines = next(other for other in change.hunks if other.id == hunk.hunk)
    return hunk.path == place[0] and lines.new_start <= place[1] < lines.new_start + max(lines.new_lines, 1)


class Evaluation:
    """One evaluation: what came out for each fault and each right hunk."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._source = random.Random(options.seed)
        self._table: dict[str, list[Findings]] = defaultdict(list)
        self._right = Counter[str]()
        self._alarms: list[str] = []
        self._times: list[float] = []
        self._flaky: frozenset[str] | None = None
        self._weakened = 0

    async def run(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            clone = Clone(self._options.repository.resolve(), Path(name))
            if self._options.copy is not None:
                shutil.copytree(self._options.copy, clone.root / self._options.copy.name, symlinks=True)
            for commit in clone.list_commits(self._options.skip):
                if len(self._times) >= self._options.commits:
                    break
                await self._try_commit(clone, commit)
        self._print()

    async def _prove(
        self, clone: Clone, files: Files, clock: Clock | None = None
    ) -> tuple[ProvenChange, list[ChangedText]]:
        budget = ProofBudget(seconds=self._options.seconds, flaky=self._flaky)
        return await prove(clone.root, files, self._options.check, budget, clock)

    async def _try_commit(self, clone: Clone, commit: str) -> None:
        files = clone.read_change(commit)
        start, clock = monotonic(), Clock()
        proven, texts = await self._prove(clone, files, clock)
        codes = [hunk for hunk in proven.hunks if hunk.kind == "code"]
        if proven.check.problem or not codes:
            print(f"left out: {clone.describe(commit)}: {proven.check.problem or 'no code'}", flush=True)
            return
        if len(codes) > MOST_HUNKS:
            print(f"left out: {clone.describe(commit)}: {len(codes)} hunks of code", flush=True)
            return
        self._flaky = frozenset(proven.check.flaky)
        self._times.append(monotonic() - start)
        self._weakened += bool(proven.check.weakened)
        self._right.update(hunk.needed for hunk in codes)
        alarms = [f"{_describe(texts, hunk)} {hunk.executed} {hunk.needed}" for hunk in codes if is_flagged(hunk)]
        self._alarms += [f"{clone.describe(commit)}: {alarm}" for alarm in alarms]
        words = Counter(hunk.needed for hunk in codes)
        seconds = f"{self._times[-1]:.0f} s (words after {clock.seconds:.0f} s, one run {proven.check.seconds:.1f} s)"
        counts = f"{len(codes)} hunks, {len(alarms)} flagged, {seconds}, {proven.check.runs} runs"
        print(f"{clone.describe(commit)}: {counts}, {dict(words)} {proven.check.flaky[:3]}", flush=True)
        for hunk in codes:
            print(f"     {_describe(texts, hunk)} {hunk.executed} {hunk.needed} {hunk.unknown} {hunk.message[:60]}")
        for fault in () if self._options.right else seed(texts, files, self._source, clone.read_parent):
            await self._try_fault(clone, fault)

    async def _try_fault(self, clone: Clone, fault: Fault) -> None:
        proven, texts = await self._prove(clone, fault.files)
        is_red = bool(proven.check.failing) or proven.check.problem in (FAILS, FAILS_ANYHOW)
        if is_red and not fault.kind.startswith("forged"):
            print(f"   red: {fault.kind}", flush=True)
            return
        findings = find_reasons(proven, texts, fault)
        self._table[fault.kind].append(findings)
        word = "found" if findings.flags else "detail" if findings.details else "MISSED"
        print(f"   {word}: {fault.kind} {fault.place} {fault.old} → {fault.new}: {[*findings.flags]}", end=" ")
        print([*findings.details], "" if findings.flags else findings.others, flush=True)

    def _print(self) -> None:
        total = [findings for rows in self._table.values() for findings in rows]
        for kind, rows in [*sorted(self._table.items()), ("all", total)]:
            flagged = sum(1 for row in rows if row.flags)
            together = sum(1 for row in rows if row.flags or row.details)
            same = sum(1 for row in rows if not row.flags and not row.details and "same" in row.others)
            print(f"{kind:32} {len(rows):3}: flagged {flagged:3}, with details {together:3}, lost to `same` {same}")
        print(f"right hunks flagged: {len(self._alarms)} of {self._right.total()}; {dict(self._right)}")
        print(*[f"   {alarm}" for alarm in self._alarms], sep="\n")
        print(f"commits with weakened tests: {self._weakened} of {len(self._times)}")
        if self._times:
            times = sorted(self._times)
            print(f"seconds a proof: median {times[len(times) // 2]:.1f}, longest {max(times):.1f}")
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"CPU seconds of all runs: {usage.ru_utime + usage.ru_stime:.0f}")


def _describe(texts: Sequence[ChangedText], hunk: HunkEvidence) -> str:
    change = next(text.change for text in texts if text.change.path == hunk.path)
    place = next(other for other in change.hunks if other.id == hunk.hunk)
    return f"{hunk.path}:{place.new_start} +{place.new_lines} -{place.old_lines}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof", description="How much proof finds.")
    parser.add_argument("repository", type=Path)
    parser.add_argument("--commits", type=int, default=5)
    parser.add_argument("--check", default="python -m pytest -q")
    parser.add_argument("--seconds", type=float, default=60.0, help="the budget of one proof")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--right", action="store_true", help="prove the commits as they are, without seeded faults")
    parser.add_argument("--copy", type=Path, help="a directory to have in the clone, such as node_modules")
    parser.add_argument("--skip", type=int, default=0, help="the newest commits that are left out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as state:
        for name in ("STATE", "CONFIG", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = f"{state}/{name.lower()}"
        asyncio.run(Evaluation(options).run())


if __name__ == "__main__":
    sys.exit(main())
