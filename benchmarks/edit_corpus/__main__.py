"""Edits from the commits of clones: `python -m benchmarks.edit_corpus PATH… [--count N] [--seed S] [--shapes all]`.

Each PATH is a git repository, or a directory of which every child is one. Returns 1 when an edit was wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import unified_diff
from itertools import product
from pathlib import Path

from benchmarks.edit_corpus.outcomes import STALE, Tally, applied, edits, gathered
from benchmarks.edit_corpus.shapes import FORMATS, SHAPES, Made


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.edit_corpus", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--count", type=int, default=1000, help="edits of each format (1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", default="careful", help=f"all, or some of: {', '.join((*SHAPES, STALE))} (careful)")
    parser.add_argument("--show", type=int, default=0, help="print so many wrong edits of each format and shape")
    parser.add_argument("--only", default="", help="show only these outcomes, such as lost,stale (all bad ones)")
    options = parser.parse_args(arguments)
    repositories = [repository for path in options.paths for repository in _repositories(path)]
    if not repositories:
        parser.error("there is no git repository at these paths")
    made_of = gathered(repositories, options.seed, most=max(20, options.count // len(repositories)))
    shapes = (*SHAPES, STALE) if options.shapes == "all" else options.shapes.split(",")
    wrong = 0
    for shape, format_ in product(shapes, FORMATS):
        tally = Tally()
        for edit in edits(made_of, format_, options.count, options.seed, shape=shape):
            tally.add(edit)
        title = f"{shape}, {format_}, seed {options.seed}, {len(repositories)} repositories"
        print(title, *tally.rows(), sep="\n", flush=True)
        wrong += len(tally.wrong)
        shown_edits = [pair for pair in tally.wrong if not options.only or pair[0] in options.only.split(",")]
        for outcome, edit in shown_edits[: options.show]:
            print(_shown(outcome, edit), flush=True)
    return int(wrong > 0)


def _shown(outcome: str, edit: Made) -> str:
    """A wrong edit, and how its result differs from the file that it means."""
    names = ("meant", "result")
    rows = unified_diff(edit.expected.splitlines(), applied(edit).splitlines(), *names, lineterm="", n=2)
    return "\n".join([f"\n{outcome.upper()} {edit.path} {edit.traits}", edit.edit, *rows])


def _repositories(path: Path) -> list[Path]:
    """The repository at a path, or those below it: work trees and bare ones."""
    candidates = [candidate for candidate in (path, path / "repo") if _is_repository(candidate)]
    if candidates or not path.is_dir():
        return candidates[:1]
    return [repository for child in sorted(path.iterdir()) for repository in _repositories(child) if child.is_dir()]


def _is_repository(path: Path) -> bool:
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
