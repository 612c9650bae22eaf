"""`python -m tests.mutations`: break each place in a copy of the project, and see whether its tests notice."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

from tests.mutations.place import Place, apply_mutation, format_row
from tests.mutations.places import PLACES

ROOT = Path(__file__).parents[2]
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:benchmark", "-p", "no:cacheprovider")
FAILED = 1  # of pytest's exit codes: tests ran, and some failed


class Outcome(Enum):
    """How a test run ended. A run that hangs has noticed, too; one that can't begin says nothing."""

    PASSED = "SURVIVED"
    FAILED = "caught"
    TIMED_OUT = "caught (it hung)"
    BROKEN = "BROKEN: the tests could not be run"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutations ARGS=…", description=__doc__)
    parser.add_argument("words", nargs="*", help="only the places whose name or file has one of these words")
    parser.add_argument("--seconds", type=float, default=120, help="that the tests of one place may take")
    parser.add_argument(
        "--table", action="store_true", help="print the rows of docs/dev/testing.md, and do nothing else"
    )
    return parser.parse_args(arguments)


def select_places(words: Sequence[str]) -> list[Place]:
    return [place for place in PLACES if not words or any(word in f"{place.name} {place.file}" for word in words)]


def copy_project(target: Path) -> None:
    """Copy what git tracks, as it is in the checkout now; the checkout itself is never changed."""
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    subprocess.run((sys.executable, "-m", "compileall", "-q", "core", "tui", "tests"), cwd=target, check=True)


@contextlib.contextmanager
def break_place(project: Path, place: Place) -> Iterator[None]:
    """Have the place broken for a while. Compiled files are removed: those of two versions may look equally old."""
    file = project / place.file
    sound, compiled = file.read_text(encoding="utf-8"), Path(importlib.util.cache_from_source(str(file)))
    try:
        file.write_text(apply_mutation(place, sound), encoding="utf-8")
        compiled.unlink(missing_ok=True)
        yield
    finally:
        file.write_text(sound, encoding="utf-8")
        compiled.unlink(missing_ok=True)


def run_tests(project: Path, tests: Sequence[str], seconds: float) -> Outcome:
    with subprocess.Popen(
        (sys.executable, *PYTEST, *tests),
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Outcome.TIMED_OUT
    return {0: Outcome.PASSED, FAILED: Outcome.FAILED}.get(code, Outcome.BROKEN)


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    places = select_places(options.words)
    if options.table:
        print(*map(format_row, places), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="agent-tui-mutations-") as directory:
        project = Path(directory)
        copy_project(project)
        every = sorted({place.test for place in places})
        if (sound := run_tests(project, every, options.seconds * len(places))) is not Outcome.PASSED:
            print(f"the tests fail as it is, so they can't tell anything: {sound.name.lower()}")
            return 2
        caught = 0
        for place in places:
            with break_place(project, place):
                outcome = run_tests(project, (place.test,), options.seconds)
            caught += outcome in {Outcome.FAILED, Outcome.TIMED_OUT}
            print(f"{outcome.value:10} {place.file}: {place.name}", flush=True)
    print(f"{caught} of {len(places)} caught")
    return int(caught < len(places))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
