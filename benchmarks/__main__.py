"""`python -m benchmarks [NAME …] [--quick]`: run benchmarks, print the table and save it in docs/dev/performance.md.

A run of all benchmarks in full writes the page; a part of them or `--quick` is for the one who is changing something.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from benchmarks.page import write_page
from benchmarks.table import Result, line

NAMES = (
    "start",
    "echo",
    "enter",
    "stream",
    "rest",
    "headless",
    "serving",
    "requests",
    "background",
    "panes",
    "replay",
    "transcripts",
    "box",
    "layers",
    "prompts",
    "programs",
    "paths",
    "soak",
    "retrieval",
    "indexing",
)


def main(arguments: Sequence[str]) -> int:
    """Returns 1 if a limit was missed, 2 if a benchmark could not be run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast and how large agent-tui is.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: a first look in two minutes")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    results, broken = _run(options.names or NAMES, quick=options.quick)
    if not (options.names or options.quick or broken):
        print(f"\nwritten: {write_page(results)}")
    missed = [result.what for result in results if result.held is False]
    for row_name in missed:
        print(f"missed: {row_name}", file=sys.stderr)
    return 2 if broken else int(bool(missed))


def _run(names: Sequence[str], *, quick: bool) -> tuple[list[Result], list[str]]:
    results, broken = list[Result](), list[str]()
    for name in names:
        print(f"\n{name}", flush=True)
        try:
            for result in importlib.import_module(f"benchmarks.{name}").measure(quick=quick):
                results.append(result)
                print("  " + line(result), flush=True)
        except Exception as problem:  # one benchmark that breaks must not hide the others
            broken.append(name)
            print(f"  {name} could not be run: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
    return results, broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
