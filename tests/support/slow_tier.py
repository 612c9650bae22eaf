"""A pytest plug-in: the tests that are marked `slow`, and the sample of them that `make test` runs.

The sample is the same on every machine and in every run. Of a test with several slow cases it has the one whose name
has the lowest checksum; of the tests with one slow case it has one in `SHARE`.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable

import pytest

SHARE = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample-slow", action="store_true", help="run a fixed sample of the tests that are marked slow")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests that are not in the sample, before `-k` does. Who names a test gets it, slow or not."""
    if not config.getoption("sample_slow") or any("::" in argument for argument in config.args):
        return
    sample = choose_sample(item.nodeid for item in items if is_slow(item))
    left_out = [item for item in items if is_slow(item) and item.nodeid not in sample]
    items[:] = [item for item in items if not is_slow(item) or item.nodeid in sample]
    config.hook.pytest_deselected(items=left_out)


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def choose_sample(names: Iterable[str]) -> set[str]:
    """Return the names of the tests that stand for all of these."""
    cases: dict[str, list[str]] = defaultdict(list)
    for name in names:
        cases[name.partition("[")[0]].append(name)
    return {min(group, key=_sum) for test, group in cases.items() if len(group) > 1 or _sum(test) % SHARE == 0}


def _sum(name: str) -> int:
    return zlib.crc32(name.encode())
