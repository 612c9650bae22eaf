"""The recorder inside real runs of tests: which lines each test executed, and how each ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.proof.runs.records import IMPORT, RecordDirectory, RunRecord, build_environment

CODE = """\
LIMIT = 3


def is_over(count):
    if count > LIMIT:
        return True
    return False


def unused():
    return LIMIT
"""
TESTS = """\
import subprocess
import sys

import pytest

from shop import is_over, unused


def test_over():
    assert is_over(4)


def test_wrong():
    assert is_over(1)


def test_crash():
    missing()


def test_in_a_child():
    subprocess.run([sys.executable, "-c", "import shop; shop.unused()"], check=True)


@pytest.mark.skip
def test_skipped():
    unused()


@pytest.mark.xfail
def test_expected():
    assert is_over(1)
"""
CASES = """\
import unittest

from shop import is_over


class Shop(unittest.TestCase):
    def test_over(self):
        self.assertTrue(is_over(4))

    def test_wrong(self):
        self.assertTrue(is_over(1))

    def test_crash(self):
        missing()

    def test_skipped(self):
        self.skipTest("no")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "tests").mkdir(parents=True)
    (root / "shop.py").write_text(CODE)
    (root / "tests" / "test_shop.py").write_text(TESTS)
    (root / "cases.py").write_text(CASES)
    (root / "pytest.ini").write_text("[pytest]\naddopts = -p no:asyncio\nfilterwarnings = error\n")
    return root


def record(project: Path, *words: str, only: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> RunRecord:
    directory = RecordDirectory(project.parent / "record", project, ["shop.py"])
    directory.prepare(only, without)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= build_environment(directory.location, {"PYTHONPATH": str(project)})
    subprocess.run([sys.executable, *words], cwd=project, env=environment, check=False)
    return directory.read()


def ends(run: RunRecord) -> dict[str, tuple[str, str, str]]:
    return {end.test.rpartition(":")[2].rpartition(".")[2]: (end.phase, end.outcome, end.kind) for end in run.ends}


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_pytest(project, options):
    run = record(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)
    assert run.collected == 6
    assert ends(run) == {
        "test_over": ("call", "passed", ""),
        "test_wrong": ("call", "failed", "AssertionError"),
        "test_crash": ("call", "failed", "NameError"),
        "test_in_a_child": ("call", "passed", ""),
        "test_skipped": ("setup", "skipped", ""),
        "test_expected": ("call", "xfailed", ""),
    }
    assert run.find_tests("shop.py", [6]) == {"tests/test_shop.py::test_over"}
    assert run.find_tests("shop.py", [7]) == {"tests/test_shop.py::test_wrong", "tests/test_shop.py::test_expected"}
    assert run.find_tests("shop.py", [11]) == {"tests/test_shop.py::test_in_a_child"}
    assert IMPORT in run.find_tests("shop.py", [1, 4, 10])
    crash = next(end for end in run.ends if end.kind == "NameError")
    assert crash.places[-1] == ("tests/test_shop.py", 18)
    assert crash.message == "name 'missing' is not defined"


def test_unittest(project):
    run = record(project, "-m", "unittest", "-q", "cases")
    assert run.collected is None
    assert ends(run) == {
        "test_over": ("call", "passed", ""),
        "test_wrong": ("call", "failed", "AssertionError"),
        "test_crash": ("call", "failed", "NameError"),
        "test_skipped": ("call", "skipped", ""),
    }
    assert run.find_tests("shop.py", [6]) == {"cases.Shop.test_over"}
    assert next(end for end in run.ends if end.kind == "NameError").places == (("cases.py", 14),)


def test_a_type_error_that_the_code_raises_itself_is_told_from_that_of_a_call_that_does_not_fit(project):
    (project / "shop.py").write_text("def ask(x):\n    if x < 0:\n        raise TypeError('negative')\n    return x\n")
    calls = ("ask(-1)", "ask()", "ask('')")
    tests = [f"def test_{number}():\n    {call}\n" for number, call in enumerate(calls)]
    (project / "tests" / "test_shop.py").write_text("from shop import ask\n" + "\n".join(tests))
    kinds = [kind for _, _, kind in ends(record(project, "-m", "pytest", "-q")).values()]
    assert kinds == ["raised TypeError", "TypeError", "TypeError"]


def test_only_the_selected_tests_run(project):
    over, wrong = "tests/test_shop.py::test_over", "tests/test_shop.py::test_wrong"
    assert ends(record(project, "-m", "pytest", "-q", only=(over, wrong), without=(wrong,))).keys() == {"test_over"}
    cases = record(project, "-m", "unittest", "cases", only=("cases.Shop.test_over",))
    assert ends(cases).keys() == {"test_over"}


def test_a_module_that_cannot_be_imported_is_told_with_the_place_that_asked(project):
    (project / "tests" / "test_new.py").write_text("from shop import nothing\n")
    (project / "shop.py").write_text(f"{CODE}\nimport shop_parts\n")
    run = record(project, "-m", "pytest", "-q", "tests/test_new.py")
    (end,) = run.ends
    assert (end.phase, end.kind) == ("collect", "ModuleNotFoundError")
    assert end.places[-1] == ("shop.py", 13)
    (project / "shop.py").write_text(CODE)
    (end,) = record(project, "-m", "pytest", "-q", "tests/test_new.py").ends
    assert (end.kind, end.places[-1]) == ("ImportError", ("tests/test_new.py", 1))


def test_the_sitecustomize_that_it_hides_is_run_and_a_run_that_ignores_the_path_has_no_record(project):
    (project / "sitecustomize.py").write_text("import builtins\nbuiltins.LIMIT_OF_SITE = 1\n")
    (project / "tests" / "test_shop.py").write_text("def test_it():\n    assert LIMIT_OF_SITE == 1\n")
    assert ends(record(project, "-m", "pytest", "-q")) == {"test_it": ("call", "passed", "")}
    assert record(project, "-I", "-m", "pytest", "-q") == RunRecord()


def test_a_forged_or_broken_record_is_none(project):
    directory = RecordDirectory(project.parent / "record", project, ["shop.py"])
    directory.prepare()
    (directory.location / "process-1.json").write_text('{"lines": {"t": [[7, 1], [0, 2]]}, "results": []}')
    (directory.location / "process-2.json").write_text("{")
    (directory.location / "process-3.json").symlink_to("/etc/hostname")
    assert directory.read().lines == {"t": {"shop.py": frozenset({2})}}
