"""A project whose tests notice one change of its code, run another without noticing it, and never reach a third."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checked import make_checked_project, run, write

CHECK = "python -m pytest -q"
OLD = '''"""Prices."""


def price(total):
    return total


def label(total):
    return str(total)


def members():
    return []


def note():
    return "old"
'''
NEW = '''"""Prices of the shop."""


def price(total):
    return total * 2


def label(total):
    return f"{total}"


def members():
    return [1]


def note():
    return "new"
'''
TESTS = """from shop.price import label, members, price


def test_price():
    assert price(2) == 4


def test_members():
    members()


def test_label():
    assert label(3) == "3"
"""
CLAIM = "A price is for two."
OLD_TESTS = TESTS.replace("== 4", "== 2")
WORK = (write("shop/price.py", NEW, CLAIM), write("tests/test_price.py", TESTS), run(CHECK))


def make_proven_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the old code and the old tests; `WORK` makes the new ones."""
    root = make_checked_project(tmp_path, monkeypatch)
    (root / "shop/price.py").write_text(OLD)
    (root / "tests/test_price.py").write_text(OLD_TESTS)
    return root
