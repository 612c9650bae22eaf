"""How well the search finds: questions of public repositories, asked of the index at the commit before the fix.

`AGENT_TUI_CLONES` names a directory with clones, `OWNER+NAME` or `OWNER/NAME`; what is not there is left out. The
ranker was tuned on `tuning.json` alone. `docs/dev/measurements.md` holds the table.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.retrieval.questions import Question, parse_query, run_git
from benchmarks.retrieval.rankings import STEPS, Rankings
from benchmarks.retrieval.trees import IndexedTree
from benchmarks.table import Result

HERE = Path(__file__).parent
SETS = ("tuning", "apart", "definitions")
CUTS = (1, 5, 10)
Scores = dict[str, list[float]]


def measure(*, quick: bool) -> Iterator[Result]:
    """Yield R@1, R@5, R@10 and NDCG@10 of each step on each set; `quick`: a few questions of each repository."""
    clones = Path(os.environ.get("AGENT_TUI_CLONES", ""))
    for name in SETS:
        scores, count = score_set(name, clones, most=3 if quick else 1_000)
        for step in STEPS if count else ():
            for label, values in scores[step].items():
                yield Result(what=f"{name} ({count}): {step}, {label}", value=sum(values) / count, unit="")


def score_set(name: str, clones: Path, *, most: int = 1_000) -> tuple[dict[str, Scores], int]:
    """Return for each step the values of each question, and how many were asked."""
    scores: dict[str, Scores] = defaultdict(lambda: defaultdict(list))
    count = 0
    for repository, entries in json.loads((HERE / f"{name}.json").read_text()).items():
        clone = find_clone(clones, repository)
        if clone is None:
            continue
        questions = sorted(read_questions(clone, repository, entries[:most]), key=lambda each: each.commit)
        with tempfile.TemporaryDirectory() as directory:
            tree, commit = IndexedTree(clone, Path(directory)), ""
            for question in questions:
                if question.commit != commit:
                    rankings, commit = Rankings(tree, tree.check_out(question.commit)), question.commit
                count += 1
                for step in STEPS:
                    paths = rankings.rank(step, question.text)
                    for label, value in rate(paths, question.files, is_any=not question.fix).items():
                        scores[step][label].append(value)
    return scores, count


def find_clone(clones: Path, repository: str) -> Path | None:
    """Return the git directory of a clone, bare or not."""
    for folder in (clones / repository, clones / repository.replace("/", "+")):
        for below in (".git", "repo/.git", "repo", "."):
            if (folder / below / "objects").is_dir():
                return folder / below
    return None


def read_questions(clone: Path, repository: str, entries: Sequence[str | list[str]]) -> Iterator[Question]:
    """Iterate over the questions of a repository: fixes ("+": with their reproduction), or text and files."""
    for entry in entries:
        if isinstance(entry, str):
            query = parse_query(clone, repository, entry.rstrip("+"), reproduction=entry.endswith("+"))
            if query is not None:
                yield query
        else:
            text, files = entry
            head = run_git(clone, "rev-parse", "HEAD").strip()
            yield Question(repository, head, text, tuple(files.split()))


def rate(paths: Sequence[str], expected_paths: Sequence[str], *, is_any: bool) -> dict[str, float]:
    """Return recall at each cut and NDCG at ten, by file. `is_any`: each of the files is an answer of its own."""
    rated = {f"R@{cut}": len(set(paths[:cut]) & set(expected_paths)) / len(expected_paths) for cut in CUTS}
    if is_any:
        rated = {label: float(value > 0) for label, value in rated.items()}
    gain = [1 / math.log2(index + 2) for index, path in enumerate(paths[:10]) if path in expected_paths]
    most = 1 if is_any else min(len(expected_paths), 10)
    ideal = sum(1 / math.log2(index + 2) for index in range(most))
    return {**rated, "NDCG@10": min(1.0, sum(gain[:most]) / ideal)}
