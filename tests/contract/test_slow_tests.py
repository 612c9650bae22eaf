"""Which tests `make test` leaves out: a list that names tests there are, and a sample that is always the same."""

from __future__ import annotations

import re

from tests.contract.source_tree import ROOT, modules
from tests.support.slow_tier import SHARE, choose_sample, choose_slow, read_seconds


def test_each_slow_test_that_is_listed_exists():
    tests = {
        f"{module.path.relative_to(ROOT)}::{function.name}"
        for module in modules("tests")
        for function in module.functions
    }
    listed = [*read_seconds()]
    assert [name for name in listed if name not in tests] == [], "renamed? `make slow` writes the list anew"
    assert listed == sorted(listed)


def test_the_sample_has_one_case_of_one_test_in_eight_in_any_order():
    cases = [f"a.py::test_{number}[{case}]" for number in range(800) for case in range(3)]
    sample = choose_sample(cases, {})
    assert sample == choose_sample(cases[::-1], {})
    tests = [name.partition("[")[0] for name in sample]
    assert len(tests) == len(set(tests))
    assert 60 < len(tests) < 140, SHARE


def test_the_sample_has_a_case_of_each_law_and_nothing_that_takes_long():
    laws = [f"tests/contract/t.py::law_{number}[{case}]" for number in range(9) for case in range(3)]
    assert len(choose_sample(laws, {name.partition("[")[0]: 9.0 for name in laws})) == 9
    alone = [f"a.py::test_{number}" for number in range(800)]
    assert choose_sample(alone, dict.fromkeys(alone, 9.0)) == set()


def test_slow_is_what_takes_long_in_a_case_or_in_many_that_are_not_tiny():
    tiny = {f"t.py::tiny[{number}]": 0.01 for number in range(500)}
    many = {f"{path}::many[{number}]": 0.2 for path in ("t.py", "tests/contract/t.py") for number in range(9)}
    seconds = {"t.py::long": 0.9, "t.py::short": 0.2, "tests/contract/t.py::law": 9.0, **tiny, **many}
    assert choose_slow(seconds, {}) == {"t.py::long": 0.9, "t.py::many": 0.2, "tests/contract/t.py::many": 0.2}


def test_cases_that_try_different_keys_are_all_in_each_run():
    seconds = {f"tests/tui/t.py::{name}[{number}]": 0.2 for name in ("sizes", "keys") for number in range(9)}
    keys = {name: [f"pane.do {name}" if "keys" in name else "pane.do a"] for name in seconds}
    assert [*choose_slow(seconds, keys)] == ["tests/tui/t.py::sizes"]


def test_the_whole_check_runs_what_the_readme_names():
    assert re.search(r"^make test +# ", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert "\ncheck test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
