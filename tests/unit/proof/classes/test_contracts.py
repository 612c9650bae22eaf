from __future__ import annotations

import pytest

from core.proof.classes.contracts import find_contracts, find_file_contract
from core.shadow.diff.hunks import compute_hunks

OLD = """\
LIMIT = 3


def price(total, rate=1):
    return total * rate


def _tax(total):
    return total


class Shop:
    def open(self, hour):
        return hour
"""


def contracts_of(path: str, old: str, new: str) -> list[str]:
    hunks = tuple(compute_hunks(old.encode(), new.encode()))
    return [contract.words for contract in find_contracts(path, old, new, hunks).values()]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("total, rate=1", "total, rate=2", ["signature of price"]),
        ("return total * rate", "return total", []),
        ("def _tax(total)", "def _tax(total, rate)", []),
        ("def open(self, hour)", "def open(self)", ["signature of Shop.open"]),
        ("    def open(self, hour):\n        return hour\n", "    pass\n", ["Shop.open is gone"]),
        ("class Shop", "class Store", ["Shop is gone"]),
        ("\n\nclass Shop", "\n\ndef added():\n    return 1\n\n\nclass Shop", []),
    ],
)
def test_signatures_and_public_names_are_contracts(old, new, words):
    found_words = contracts_of("shop/a.py", OLD, OLD.replace(old, new, 1))
    assert found_words[: len(words)] == words
    assert bool(found_words) == bool(words)


@pytest.mark.parametrize(("path", "words"), [("shop/_a.py", []), ("shop/__init__.py", ["Shop.open is gone"])])
def test_a_name_that_is_gone_from_a_private_module_is_no_contract(path, words):
    new = OLD.replace("    def open(self, hour):\n        return hour\n", "    pass\n")
    assert contracts_of(path, OLD, new) == words


def test_a_signature_of_another_language_is_one():
    old = "export function price(total) {\n  return total;\n}\n"
    assert contracts_of("a.js", old, old.replace("(total)", "(total, rate)")) == ["signature of price"]
    assert contracts_of("a.js", old, old.replace("return total", "return 2 * total")) == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("pyproject.toml", "dependencies"),
        ("requirements-dev.txt", "dependencies"),
        ("web/package.json", "dependencies"),
        ("shop/migrations/0002_price.py", "migration"),
        ("alembic/versions/ab12.py", "migration"),
        ("api/shop.proto", "schema"),
        ("docs/openapi.json", "schema"),
        ("shop/price.py", None),
        ("README.md", None),
    ],
)
def test_a_file_can_be_a_contract_by_its_name(path, words):
    contract = find_file_contract(path)
    assert (contract.words if contract is not None else None) == words
