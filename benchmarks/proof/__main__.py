"""`python -m benchmarks.proof REPOSITORY [--commits N] [--check COMMAND] [--python PATH]`: seeds faults and counts.

REPOSITORY is a clone with its history. Each commit that changes code becomes the pending change of a session, as it is
(a control) and with faults. A fault counts if the check passes with it; it is found if proof flags the hunk, or the
check itself. A right hunk of code that is flagged is a false alarm. The result is printed, a row for each kind.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.proof.faults import Fault, Files, seed
from core.clock import monotonic
from core.engine import Engine
from core.proof.findings import list_recorded
from core.proof.hunk_classes import ChangedText
from core.proof.prover import ProofBudget, ProvenChange, Prover
from core.proof.runs.commands import parse_command
from core.proof.runs.variant_runs import VariantRuns
from core.protocol import commands as cmd
from core.protocol.evidence import CheckEvidence, HunkEvidence
from core.protocol.options import EngineOptions
from core.shell.verification.steering_files import is_test_file


class Clone:
    """A clone, one commit at a time."""

    def __init__(self, source: Path, directory: Path) -> None:
        self.root = directory / "project"
        self._git("clone", "-q", "--no-checkout", str(source), str(self.root), at=directory)

    def _git(self, *words: str, at: Path | None = None) -> bytes:
        return subprocess.run(["git", *words], cwd=at or self.root, check=True, capture_output=True).stdout

    def list_commits(self, count: int) -> Iterator[str]:
        """Yield the newest commits that change code of Python and tests, without merges."""
        for commit in self._git("rev-list", "--no-merges", "--all", "-n", str(count * 30)).decode().split():
            paths = self._git("diff-tree", "-r", "--no-commit-id", "--name-only", commit).decode().splitlines()
            code = [path for path in paths if path.endswith(".py") and not is_test_file(path)]
            if code and any(is_test_file(path) for path in paths) and len(paths) < 40:
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


class Silent:
    """Hears of evidence, and needs only the end of it."""

    def report_hunk(self, evidence: HunkEvidence) -> None:
        pass

    def report_check(self, evidence: CheckEvidence) -> None:
        pass


async def prove(root: Path, files: Files, command: str, seconds: float) -> tuple[ProvenChange, list[ChangedText]]:
    """Prove a change in a session of its own."""
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
            return await Prover(texts, runs, command, ProofBudget(seconds=seconds), Silent()).prove(), texts
        finally:
            await runs.close()
    finally:
        await engine.close()


def read_texts(session: object) -> list[ChangedText]:
    shadow, review = session.shadow, session.review  # type: ignore[attr-defined]
    return [
        ChangedText(change, shadow.read_base(change), shadow.read(change.path) or b"")
        for change in review.changes.values()
    ]


def is_flagged(hunk: HunkEvidence) -> bool:
    """True if a hunk is shown as one to look at."""
    return hunk.kind == "code" and (hunk.executed == "none" or hunk.needed == "unnoticed")


def find_reasons(proven: ProvenChange, texts: Sequence[ChangedText], fault: Fault) -> list[str]:
    """Return by what a fault is found."""
    check, reasons = proven.check, list[str]()
    if check.problem:
        reasons.append("the check proves nothing")
    if check.weakened:
        reasons.append("weakened")
    for hunk in proven.hunks:
        if fault.place is None or not _contains(texts, hunk, fault.place):
            continue
        if hunk.executed == "none" or fault.place[1] in hunk.not_run:
            reasons.append("never ran")
        if hunk.needed == "unnoticed":
            reasons.append("unnoticed")
        others = [mutant for mutant in hunk.mutants if (mutant.old, mutant.new) != (fault.new, fault.old)]
        if any(not mutant.is_noticed for mutant in others):
            reasons.append("mutant")
    return reasons


def _contains(texts: Sequence[ChangedText], hunk: HunkEvidence, place: tuple[str, int]) -> bool:
    change = next(text.change for text in texts if text.change.path == hunk.path)
    lines = next(other for other in change.hunks if other.id == hunk.hunk)
    return hunk.path == place[0] and lines.new_start <= place[1] < lines.new_start + max(lines.new_lines, 1)


async def evaluate(options: argparse.Namespace) -> None:
    source = random.Random(options.seed)
    table: dict[str, list[list[str]]] = defaultdict(list)
    right, alarms, times = 0, list[str](), list[float]()
    with tempfile.TemporaryDirectory() as name:
        clone = Clone(options.repository.resolve(), Path(name))
        done = 0
        for commit in clone.list_commits(options.commits):
            if done >= options.commits:
                break
            files = clone.read_change(commit)
            start = monotonic()
            proven, texts = await prove(clone.root, files, options.check, options.seconds)
            if proven.check.problem:
                print(f"left out: {clone.describe(commit)}: {proven.check.problem}", flush=True)
                continue
            done += 1
            times.append(monotonic() - start)
            codes = [hunk for hunk in proven.hunks if hunk.kind == "code"]
            right += len(codes)
            alarms += [
                f"{clone.describe(commit)}: {hunk.path} {hunk.executed} {hunk.needed}"
                for hunk in codes
                if is_flagged(hunk)
            ]
            flagged = sum(map(is_flagged, codes))
            print(f"{clone.describe(commit)}: {len(codes)} hunks, {flagged} flagged, {times[-1]:.0f} s", flush=True)
            for fault in seed(texts, files, source, clone.read_parent):
                await _try_fault(clone, fault, options, table)
    _print_table(table, right, alarms, times)


async def _try_fault(
    clone: Clone, fault: Fault, options: argparse.Namespace, table: dict[str, list[list[str]]]
) -> None:
    proven, texts = await prove(clone.root, fault.files, options.check, options.seconds)
    is_red = bool(proven.check.failing) or proven.check.problem.startswith("The check fails")
    if is_red and not fault.kind.startswith("forged"):
        print(f"   red: {fault.kind}", flush=True)
        return
    reasons = find_reasons(proven, texts, fault)
    table[fault.kind].append(reasons)
    print(
        f"   {'found' if reasons else 'MISSED'}: {fault.kind} {fault.place} {fault.old} → {fault.new}: {reasons}",
        flush=True,
    )


def _print_table(table: dict[str, list[list[str]]], right: int, alarms: list[str], times: list[float]) -> None:
    total = [reasons for rows in table.values() for reasons in rows]
    for kind, rows in [*sorted(table.items()), ("all", total)]:
        print(f"{kind:32} {sum(1 for reasons in rows if reasons):3} of {len(rows):3} found")
    print(f"right hunks flagged: {len(alarms)} of {right}")
    print(*[f"   {alarm}" for alarm in alarms], sep="\n")
    print(
        f"seconds a proof: median {sorted(times)[len(times) // 2]:.1f}, longest {max(times):.1f}"
        if times
        else "no commit"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof", description="How much proof finds.")
    parser.add_argument("repository", type=Path)
    parser.add_argument("--commits", type=int, default=5)
    parser.add_argument("--check", default="python -m pytest -q")
    parser.add_argument("--seconds", type=float, default=60.0, help="the budget of one proof")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as state:
        for name in ("STATE", "CONFIG", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = f"{state}/{name.lower()}"
        asyncio.run(evaluate(options))


if __name__ == "__main__":
    sys.exit(main())
