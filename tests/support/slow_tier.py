"""A pytest plug-in: the slow tests, and the sample of them that `make test` runs.

Slow is what `tests/slow_tests.txt` names with its seconds, by measurement, and what is marked `slow` as it repeats,
for another user or another kind of installation, what each run tries. The sample is the same on every machine and in
every run: one test in `SHARE` of those that take no longer than `SAMPLE_SECONDS`, and of each the case whose name has
the lowest checksum.

Laws and Pilot tests are in each run: of those that have many slow cases, one case is, unless they try different keys.

`make slow` measures again: the processor time of each test and of all that it started, which a busy
machine lengthens far less than the time by the clock.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

LISTED = Path(__file__).parents[1] / "slow_tests.txt"
SHARE = 8
SAMPLE_SECONDS = 2.0  # a case that takes more is in no sample
CASE_SECONDS = 0.3  # a case that takes more is slow
TEST_SECONDS, MIN_CASE_SECONDS = 0.5, 0.1  # as are many small ones of a test, though none of less than a tenth
# Laws are cheap, though the first that asks for the source parses it; Pilot tests press each key.
PARTLY_IN_EACH_RUN = ("tests/contract/", "tests/tui/")
WHOLLY_IN_EACH_RUN = ("tests/integration/test_kill.py", "tests/integration/test_promises.py")  # the promise itself
SECONDS: dict[str, float] = {}
KEYS: dict[str, list[str]] = {}  # the keys of the key table that each Pilot test tried


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample-slow", action="store_true", help="of the slow tests run a fixed sample")
    parser.addoption("--measure-slow", action="store_true", help=f"write {LISTED.name} by what each test takes")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests that are not in the sample, before `-k` does. Who names a test gets it, slow or not."""
    for item in items:
        if name_test(item.nodeid) in read_seconds():
            item.add_marker("slow")
    if not config.getoption("sample_slow") or any("::" in argument for argument in config.args):
        return
    sample = choose_sample((item.nodeid for item in items if is_slow(item)), read_seconds())
    left_out = [item for item in items if is_slow(item) and item.nodeid not in sample]
    items[:] = [item for item in items if not is_slow(item) or item.nodeid in sample]
    config.hook.pytest_deselected(items=left_out)


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def name_test(name: str) -> str:
    """Return the name of a test without that of its case."""
    return name.partition("[")[0]


@cache
def read_seconds() -> dict[str, float]:
    """Return the slow tests that are listed, each with what its slowest case took."""
    rows = (line.split() for line in LISTED.read_text(encoding="utf-8").splitlines())
    return {name: float(seconds) for seconds, name in rows}


def choose_sample(names: Iterable[str], seconds: Mapping[str, float]) -> set[str]:
    """Return the names of the cases that stand for all of these; `seconds`: of the tests that were measured."""
    cases: dict[str, list[str]] = defaultdict(list)
    for name in names:
        cases[name_test(name)].append(name)
    return {
        min(group, key=_sum)
        for test, group in cases.items()
        if (test.startswith(PARTLY_IN_EACH_RUN) and len(group) > 1)
        or (_sum(test) % SHARE == 0 and seconds.get(test, 0) <= SAMPLE_SECONDS)
    }


def _sum(name: str) -> int:
    return zlib.crc32(name.encode())


def choose_slow(seconds: Mapping[str, float], keys: Mapping[str, list[str]]) -> dict[str, float]:
    """Return the tests that are slow by the processor time that each of their cases took, with that of the slowest.
    `keys`: those that each case tried; where cases differ in them, each run has to have all."""
    cases: dict[str, list[float]] = defaultdict(list)
    pressed: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for name, case_seconds in seconds.items():
        cases[name_test(name)].append(case_seconds)
        pressed[name_test(name)].add((*keys.get(name, ()),))
    return {
        test: max(cases[test]) for test in sorted(cases) if len(pressed[test]) == 1 and _is_slow_test(test, cases[test])
    }


def _is_slow_test(name: str, cases: Sequence[float]) -> bool:
    if name.startswith(WHOLLY_IN_EACH_RUN) or (len(cases) == 1 and name.startswith(PARTLY_IN_EACH_RUN)):
        return False
    total = sum(cases)
    return total >= CASE_SECONDS * len(cases) or (total >= TEST_SECONDS and total >= MIN_CASE_SECONDS * len(cases))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        SECONDS[item.nodeid] = sum(os.times()[:4]) - before


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    SECONDS.update(getattr(node, "workeroutput", {}).get("seconds", {}))
    KEYS.update(getattr(node, "workeroutput", {}).get("keys", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["seconds"], output["keys"] = SECONDS, KEYS
    elif session.config.getoption("measure_slow"):
        rows = (f"{seconds:.1f} {name}\n" for name, seconds in choose_slow(SECONDS, KEYS).items())
        LISTED.write_text("".join(rows), encoding="utf-8")
