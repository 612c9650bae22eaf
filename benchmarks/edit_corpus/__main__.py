"""Edits from the commits of clones: `python -m benchmarks.edit_corpus PATH… [--count N] [--seed S] [--careless]`.

Each PATH is a git repository, or a directory of which every child is one. Returns 1 when an edit was wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.edit_corpus.outcomes import Tally, edits, gathered
from benchmarks.edit_corpus.shapes import FORMATS


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.edit_corpus", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--count", type=int, default=1000, help="edits of each format (1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--careless", action="store_true", help="contexts and blank lines as they fall, also where they tell no place"
    )
    parser.add_argument("--show", action="store_true", help="print the wrong edits")
    options = parser.parse_args(arguments)
    repositories = [each for path in options.paths for each in _repositories(path)]
    if not repositories:
        parser.error("there is no git repository at these paths")
    made_of = gathered(repositories, options.seed, most=max(20, options.count // len(repositories)))
    wrong = 0
    for format_ in FORMATS:
        tally = Tally()
        for made in edits(made_of, format_, options.count, options.seed, careful=not options.careless):
            tally.add(made)
        print(f"{format_}, seed {options.seed}, {len(repositories)} repositories", *tally.rows(), sep="\n", flush=True)
        wrong += len(tally.wrong)
        for each in tally.wrong if options.show else ():
            print(f"\nWRONG {each.path} {each.traits}\n{each.edit}")
    return int(wrong > 0)


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
