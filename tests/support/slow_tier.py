"""A pytest plug-in: the slow tests, and the sample of them that `make test` runs.

Slow is what `tests/slow_tests.txt` names, by measurement, and what is marked `slow` because it repeats, for another
user or another kind of installation, what each run tries. The sample is the same on every machine and in every run: of
a test with several slow cases the one whose name has the lowest checksum, of the others one test in `SHARE`.

`make slow` measures again: the processor time of each test and of all that it started, which hardly depends on what
else the machine does.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

LISTED = Path(__file__).parents[1] / "slow_tests.txt"
SHARE = 8
CASE_SECONDS = 0.3  # a case that takes more is slow
TEST_SECONDS, MIN_CASE_SECONDS = 0.5, 0.1  # as are many small ones of a test, though none of less than a tenth
# Laws are cheap, though the first that asks for the source parses it; Pilot tests press each key; two are the promise.
IN_EACH_RUN = (
    "tests/contract/",
    "tests/tui/",
    "tests/integration/test_kill.py",
    "tests/integration/test_promises.py",
)
SECONDS: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample-slow", action="store_true", help="of the slow tests run a fixed sample")
    parser.addoption("--measure-slow", action="store_true", help=f"write {LISTED.name} by what each test takes")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests that are not in the sample, before `-k` does. Who names a test gets it, slow or not."""
    for item in items:
        if name_test(item.nodeid) in read_list():
            item.add_marker("slow")
    if not config.getoption("sample_slow") or any("::" in argument for argument in config.args):
        return
    sample = choose_sample(item.nodeid for item in items if is_slow(item))
    left_out = [item for item in items if is_slow(item) and item.nodeid not in sample]
    items[:] = [item for item in items if not is_slow(item) or item.nodeid in sample]
    config.hook.pytest_deselected(items=left_out)


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def name_test(name: str) -> str:
    """Return the name of a test without that of its case."""
    return name.partition("[")[0]


@cache
def read_list() -> frozenset[str]:
    return frozenset(LISTED.read_text(encoding="utf-8").split())


def choose_sample(names: Iterable[str]) -> set[str]:
    """Return the names of the tests that stand for all of these."""
    cases: dict[str, list[str]] = defaultdict(list)
    for name in names:
        cases[name_test(name)].append(name)
    return {min(group, key=_sum) for test, group in cases.items() if len(group) > 1 or _sum(test) % SHARE == 0}


def _sum(name: str) -> int:
    return zlib.crc32(name.encode())


def choose_slow(seconds: Mapping[str, float]) -> list[str]:
    """Return the tests that are slow by the processor time that each of their cases took."""
    totals, counts = Counter[str](), Counter(map(name_test, seconds))
    for name, taken in seconds.items():
        totals[name_test(name)] += taken
    return sorted(
        test
        for test, total in totals.items()
        if total >= CASE_SECONDS * counts[test] or (total >= TEST_SECONDS and total >= MIN_CASE_SECONDS * counts[test])
        if not test.startswith(IN_EACH_RUN)
    )


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["seconds"] = SECONDS
    elif session.config.getoption("measure_slow"):
        LISTED.write_text("\n".join(choose_slow(SECONDS)) + "\n", encoding="utf-8")
