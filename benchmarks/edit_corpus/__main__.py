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
    repositories = [each for path in options.paths for each in _repositories(path)]
    if not repositories:
        parser.error("there is no git repository at these paths")
    made_of = gathered(repositories, options.seed, most=max(20, options.count // len(repositories)))
    shapes = (*SHAPES, STALE) if options.shapes == "all" else options.shapes.split(",")
    wrong = 0
    for shape, format_ in product(shapes, FORMATS):
        tally = Tally()
        for made in edits(made_of, format_, options.count, options.seed, shape=shape):
            tally.add(made)
        title = f"{shape}, {format_}, seed {options.seed}, {len(repositories)} repositories"
        print(title, *tally.rows(), sep="\n", flush=True)
        wrong += len(tally.wrong)
        shown = [each for each in tally.wrong if not options.only or each[0] in options.only.split(",")]
        for outcome, made in shown[: options.show]:
            print(_shown(outcome, made), flush=True)
    return int(wrong > 0)


def _shown(outcome: str, made: Made) -> str:
    """A wrong edit, and how its result differs from the file that it means."""
    names = ("meant", "result")
    rows = unified_diff(made.expected.splitlines(), applied(made).splitlines(), *names, lineterm="", n=2)
    return "\n".join([f"\n{outcome.upper()} {made.path} {made.traits}", made.edit, *rows])


def _repositories(path: Path) -> list[Path]:
    """The repository at a path, or those below it: work trees and bare ones."""
    found = [each for each in (path, path / "repo") if _is_repository(each)]
    if found or not path.is_dir():
        return found[:1]
    return [each for child in sorted(path.iterdir()) for each in _repositories(child) if child.is_dir()]


def _is_repository(path: Path) -> bool:
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
