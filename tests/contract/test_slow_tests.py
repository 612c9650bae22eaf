"""Which tests `make test` leaves out: a list that names tests there are, and a sample that is always the same."""

from __future__ import annotations

import re

from tests.contract.source_tree import ROOT, modules
from tests.support.slow_tier import LISTED, SHARE, choose_sample, choose_slow


def test_each_slow_test_that_is_listed_exists():
    tests = {
        f"{module.path.relative_to(ROOT)}::{function.name}"
        for module in modules("tests")
        for function in module.functions
    }
    listed = LISTED.read_text(encoding="utf-8").split()
    assert [name for name in listed if name not in tests] == [], "renamed? `make slow` writes the list anew"
    assert listed == sorted(set(listed))


def test_the_sample_has_one_of_several_cases_and_one_of_eight_tests_in_any_order():
    cases = [f"a.py::test_a[{number}]" for number in range(5)]
    alone = [f"a.py::test_{number}" for number in range(800)]
    sample = choose_sample([*cases, *alone])
    assert sample == choose_sample([*alone[::-1], *cases[::-1]])
    assert len(sample & {*cases}) == 1
    assert 60 < len(sample & {*alone}) < 140, SHARE


def test_slow_is_what_takes_long_in_a_case_or_in_many_that_are_not_tiny():
    tiny = {f"t.py::tiny[{number}]": 0.01 for number in range(500)}
    many = {f"t.py::many[{number}]": 0.2 for number in range(9)}
    seconds = {"t.py::long": 0.9, "t.py::short": 0.2, "tests/contract/t.py::law": 9.0, **tiny, **many}
    assert choose_slow(seconds) == ["t.py::long", "t.py::many"]


def test_the_whole_check_runs_what_the_readme_names():
    assert re.search(r"^make test +# ", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert "\ncheck test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
