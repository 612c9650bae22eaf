"""The source, parsed, takes half a gigabyte, and only these tests read all of it."""

from __future__ import annotations

import pytest

from tests.contract.source_tree import forget_trees


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path.parent != item.path.parent:
        forget_trees()
