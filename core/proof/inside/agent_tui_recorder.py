"""Records, in a test run of the project, which lines of changed files each test executes, and how each test ends.

It is started by `sitecustomize.py` in every Python process of the run. `AGENT_TUI_RECORD` is a directory: `files.json`
lists the absolute paths of the files whose lines are recorded, `select.json` the tests to run and those to leave out.
Each process writes a file of its own there, since a runner may have several. Lines that run outside of a test, mostly
at import, belong to the test "". A child process belongs to the test that started it.

This file is executed by the user's interpreter, so it needs only the standard library of Python 3.8, and it must not
disturb: it opens nothing that it does not close, warns of nothing, and fails in silence.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

_TEST = "AGENT_TUI_RECORD_TEST"
_MOST_MESSAGE = 400  # characters

Result = List[Any]  # test, phase, outcome, class of the exception, its message, files and lines of its traceback


class Recorder:
    """The record of one process."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.process = os.getpid()
        self.test = os.environ.get(_TEST, "")
        with open(os.path.join(directory, "files.json"), encoding="utf-8") as file:
            self.files: Dict[str, int] = {path: number for number, path in enumerate(json.load(file))}
        self.numbers: Dict[str, int] = {}  # of files, by what a code object calls its file; -1 = it is not recorded
        self.lines: Dict[str, Set[Tuple[int, int]]] = {}
        self.ends: Dict[Tuple[int, int], int] = {}  # the last lines of statements whose first line is recorded
        self.current = self.lines.setdefault(self.test, set())
        self.results: List[Result] = []
        self.collected: Optional[int] = None
        self.selection: Optional[Tuple[Set[str], Set[str]]] = None

    def begin(self) -> None:
        """Leave a sign that a runner is heard; one whose tests never come was cut off."""
        with open(os.path.join(self.directory, f"process-{self.process}.begun"), "w", encoding="utf-8"):
            pass

    def find_number(self, name: str) -> int:
        """Return the number of a file, -1 = it is not recorded."""
        number = self.numbers.get(name)
        if number is None:
            number = self.files.get(name, -1)
            if number < 0 and not name.startswith("<"):
                number = self.files.get(os.path.realpath(name), -1)
            self.numbers[name] = number
        return number

    def enter(self, test: str) -> None:
        """From now on, lines belong to this test; "" = none."""
        self.test = os.environ[_TEST] = test
        self.current = self.lines.setdefault(test, set())

    def add_result(self, test: str, phase: str, outcome: str, error: Tuple[str, str, List[Any]] = ("", "", [])) -> None:
        """`error`: the class of the exception that ended it, its message, files and lines of its traceback."""
        kind, message, places = error
        self.results.append([test, phase, outcome, kind, message[:_MOST_MESSAGE], places])

    def forget(self) -> None:
        """Begin anew in a forked child, which must not tell again what its parent tells."""
        self.process = os.getpid()
        self.lines = {}
        self.results = []
        self.current = self.lines.setdefault(self.test, set())

    def is_selected(self, test: str) -> bool:
        """Return True if a test is to run."""
        if self.selection is None:
            try:
                with open(os.path.join(self.directory, "select.json"), encoding="utf-8") as file:
                    selection = json.load(file)
                self.selection = (set(selection["only"]), set(selection["without"]))
            except (OSError, ValueError, KeyError):
                self.selection = (set(), set())
        only, without = self.selection
        return (not only or test in only) and test not in without

    def _expand(self, places: Set[Tuple[int, int]]) -> Set[Tuple[int, int]]:
        return {
            (number, line)
            for number, first in places
            for line in range(first, self.ends.get((number, first), first) + 1)
        }

    def write(self) -> None:
        """Write what was recorded until now."""
        lines = {test: sorted(self._expand(places)) for test, places in self.lines.items() if places}
        if not (lines or self.results or self.collected is not None):
            return
        path = os.path.join(self.directory, f"process-{self.process}.json")
        try:
            with open(f"{path}.part", "w", encoding="utf-8") as file:
                json.dump({"lines": lines, "results": self.results, "collected": self.collected}, file)
            os.replace(f"{path}.part", path)
        except OSError:
            pass


def start(directory: str) -> None:
    """Record this process from now on."""
    try:
        recorder = Recorder(directory)
    except (OSError, ValueError):
        return
    if recorder.files:
        importlib.import_module("agent_tui_lines").record_lines(recorder)
    atexit.register(recorder.write)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.forget)
    sys.meta_path.insert(0, importlib.import_module("agent_tui_runners").RunnerFinder(recorder))
