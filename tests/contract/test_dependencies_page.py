"""`docs/dev/dependencies.md` has a line with a reason for every package that the program asks for, and no other."""

from __future__ import annotations

import re

from tests.contract.source_tree import ROOT, project
from tests.contract.test_layers import normalised

PAGE = (ROOT / "docs" / "dev" / "dependencies.md").read_text(encoding="utf-8")
RENEW = "run: python docs/dev/tools/dependency_table.py, and say in the page what is new"


def rows() -> dict[str, list[str]]:
    table = PAGE.partition("## Extras")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:3] == "| `"]
    return {cells[0].strip("`"): cells[1:] for cells in lines}


def test_the_page_lists_exactly_the_packages_that_the_program_asks_for():
    names = [normalised(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in project()["dependencies"]]
    assert list(rows()) == sorted(names), RENEW


def test_every_line_says_what_for_how_large_under_which_licence_and_what_else_was_considered():
    assert {name: cells for name, cells in rows().items() if len(cells) != 6 or {"", "?"} & set(cells)} == {}, RENEW


def test_the_extras_are_listed_too():
    extras = project()["optional-dependencies"].keys() - {"dev"}
    assert set(re.findall(r"^\| `([\w-]+)` ", PAGE.partition("## Extras")[2], re.MULTILINE)) == extras
