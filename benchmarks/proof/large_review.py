"""`python -m benchmarks.proof.large_review REPOSITORY COMMIT`: how much has to be read of a large change.

The commit (a merge: against its first parent) becomes the pending change of a session, with three faults that its check
does not notice. Printed are the first screen of the review, and how many rows of it and how many lines of the plain
diff are read until each fault was seen.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.proof.__main__ import Clone, open_runs, prove
from benchmarks.proof.faults import Fault, Files, seed
from core.clock import monotonic
from core.proof.hunk_classes import ChangedText
from core.proof.prover import ProofBudget, ProvenChange
from core.protocol.events import EvidenceRecorded
from core.protocol.review import Change, Hunk
from core.state.proof import ProofState, summarize_proof
from core.state.proof_text import describe_check, list_proof_rows

FAULTS = 3
SCREEN = 36  # rows
_HANGS = 10.0  # times as long as without the fault
_RUN = ProofBudget(seconds=1.0, hunks=0, with_mutants=False)


def read_merge(clone: Clone, commit: str) -> Files:
    """Return the files of a commit against its first parent, and check that out."""
    clone._git("checkout", "-q", "-f", f"{commit}^1")
    rows = clone._git("diff", "--name-status", "--no-renames", f"{commit}^1", commit).decode().splitlines()
    names = [row.split("\t", 1) for row in rows]
    return {path: None if status == "D" else clone.read(commit, path) for status, path in names}


async def choose_faults(
    clone: Clone, files: Files, texts: Sequence[ChangedText], seconds: float, options: argparse.Namespace
) -> tuple[Files, list[Fault]]:
    """Return the change with faults in it that leave the check green, each in a file of its own. `seconds`: those of a
    run of the check."""
    source, chosen = random.Random(options.seed), list[Fault]()
    for _ in range(options.tries):
        if len(chosen) == FAULTS:
            break
        for fault in seed(list(texts), files, source, clone.read_parent):
            is_new_file = fault.place is not None and fault.place[0] not in {
                one.place[0] for one in chosen if one.place
            }
            if fault.kind != "small fault, its own tests" or not is_new_file or is_undone(clone, fault):
                continue
            assert fault.place is not None
            trial = {**files, fault.place[0]: fault.files[fault.place[0]]}
            async with open_runs(clone.root, trial, options.check) as (runs, _):
                result = await runs.run(is_brief=True, seconds=seconds * _HANGS)
            if result.is_green:
                files, chosen = trial, [*chosen, fault]
                print(f"seeded: {fault.place[0]}:{fault.place[1]} {fault.old} -> {fault.new}", flush=True)
            break
    return files, chosen


def is_undone(clone: Clone, fault: Fault) -> bool:
    """True if a fault brings a line of the old text back, and so is no line of the change any more."""
    if fault.place is None:
        return True
    path, line = fault.place
    new = (fault.files[path] or b"").splitlines()[line - 1]
    return new in clone.read_parent(path).splitlines()


def contains(change: Change, hunk: Hunk, fault: Fault) -> bool:
    """True if a hunk holds the faulty line."""
    assert fault.place is not None
    path, line = fault.place
    return change.path == path and hunk.new_start <= line < hunk.new_start + max(hunk.new_lines, 1)


def print_review(proven: ProvenChange, texts: Sequence[ChangedText], faults: Sequence[Fault]) -> None:
    """Print the first screen, and the places of the faults in it and in the plain diff."""
    changes = sorted((text.change for text in texts), key=lambda change: change.path)
    proof = ProofState()
    proof.apply_evidence(EvidenceRecorded(check=proven.check, hunks=proven.hunks, text={}))
    summary = summarize_proof(proof, changes)
    rows = [row for row in list_proof_rows(proof, changes) if row.judgement.word != "folded"]
    print(f"\n{len(changes)} files, {sum(len(change.hunks) for change in changes)} hunks: {summary.describe()}")
    print(f"Check: {describe_check(proven.check)}")
    print(*[row.format() for row in rows[:SCREEN]], sep="\n")
    print(f"Folded: {' · '.join(summary.kinds)}\n")
    hunks = [(change, hunk) for change in changes for hunk in change.hunks]
    for fault in faults:
        row = next((n for n, row in enumerate(rows, 1) if contains(row.change, row.hunk, fault)), None)
        position = next(n for n, (change, hunk) in enumerate(hunks) if contains(change, hunk, fault))
        lines = sum(hunk.old_lines + hunk.new_lines for _, hunk in hunks[: position + 1])
        read = sum(row.hunk.old_lines + row.hunk.new_lines for row in rows[: row or 0])
        assert fault.place is not None
        print(
            f"{fault.place[0]}:{fault.place[1]} {fault.old} -> {fault.new}: "
            + (f"row {row} of {len(rows)} ({read} changed lines)" if row else "folded")
            + f"; in the plain diff hunk {position + 1} of {len(hunks)} ({lines} changed lines)"
        )


async def review(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        clone = Clone(options.repository.resolve(), Path(name))
        files = read_merge(clone, options.commit)
        print(clone.describe(options.commit), flush=True)
        proven, texts = await prove(clone.root, files, options.check, _RUN)
        print(f"check: {proven.check.tests} tests, {proven.check.seconds:.1f} s {proven.check.problem}", flush=True)
        files, faults = await choose_faults(clone, files, texts, proven.check.seconds, options)
        start = monotonic()
        budget = ProofBudget(seconds=options.seconds, hunks=10_000)
        proven, texts = await prove(clone.root, files, options.check, budget)
        print(f"proof: {monotonic() - start:.0f} s, {proven.check.runs} runs", flush=True)
        print_review(proven, texts, faults)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof.large_review", description="A large review.")
    parser.add_argument("repository", type=Path)
    parser.add_argument("commit")
    parser.add_argument("--check", default="python -m pytest -q")
    parser.add_argument("--seconds", type=float, default=600.0, help="the budget of the proof")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tries", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as state:
        for name in ("STATE", "CONFIG", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = f"{state}/{name.lower()}"
        asyncio.run(review(options))


if __name__ == "__main__":
    sys.exit(main())
