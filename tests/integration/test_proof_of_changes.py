"""Proof of a change by real runs of pytest in a real box: the word for each hunk, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path

import pytest

from core.proof.classes.uniform_edits import Place
from core.proof.findings import describe_unrun, list_recorded
from core.proof.hunk_classes import ChangedText
from core.proof.prover import OUT_OF_TIME, PROBLEM, PROVES_NOTHING, ProofBudget, ProvenChange, Prover
from core.proof.runs.commands import parse_command
from core.proof.runs.variant_runs import VariantRuns
from core.proof.variants.base_runs import FAILS, FAILS_ANYHOW, HIDES, NO_TESTS, UNSEEN_TESTS, UNSTEADY
from core.protocol.evidence import CheckEvidence, HunkEvidence
from tests.support.checked import make_checked_project
from tests.support.open_session import session_in

CHECK = "python -m pytest -q"
BASE = """\
def total(amount, limit):
    return amount * 2


def name(text):
    return text.strip()


def parts(text):
    return text.split(",")


def never(text):
    return text
"""
PENDING = """\
DISCOUNT = 3


def total(amount, limit):
    if amount >= limit:
        return amount * 2 - DISCOUNT
    return amount * 2


def name(text):
    text = text.replace("x", "")
    return text.strip()


def parts(text):
    found = []
    for part in text.split(","):
        found = found + [part]
    return found


def never(text):
    text = text.lower()
    return text
"""
TESTS = """\
from shop.price import name, parts, total


def test_total():
    assert total(3, 10) == 6


def test_name():
    assert name(" a ") == "a"


def test_parts():
    assert parts("a,b") == ["a", "b"]
    assert parts("a") == ["a"]
"""
NEW_TEST = f"{TESTS}\n\ndef test_discount():\n    assert total(10, 10) == 17\n    assert total(11, 10) == 19\n"
FILES = {"shop/price.py": PENDING, "tests/test_price.py": NEW_TEST}
BUDGET = ProofBudget(seconds=300, flaky=frozenset())


class Report:
    """All evidence in the order in which it came."""

    def __init__(self) -> None:
        self.hunks: list[HunkEvidence] = []
        self.checks: list[CheckEvidence] = []
        self.has_run = asyncio.Event()

    def report_hunk(self, evidence: HunkEvidence) -> None:
        self.hunks.append(evidence)

    def report_check(self, evidence: CheckEvidence) -> None:
        self.checks.append(evidence)
        if evidence.tests:
            self.has_run.set()


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    root = make_checked_project(tmp_path, monkeypatch)
    (root / "shop/price.py").write_text(BASE)
    (root / "tests/test_price.py").write_text(TESTS)
    return root


class Changed:
    """A session with a change, and the directory of its runs."""

    def __init__(self, texts: list[ChangedText], runs: VariantRuns, directory: Path) -> None:
        self.texts, self.runs, self.directory = texts, runs, directory

    async def prove(
        self,
        budget: ProofBudget = BUDGET,
        known: Mapping[Place, HunkEvidence] | None = None,
        report: Report | None = None,
    ) -> ProvenChange:
        return await Prover(self.texts, self.runs, CHECK, budget, report or Report(), known).prove()


@contextlib.asynccontextmanager
async def changed(
    project: Path, files: Mapping[str, str], command: str = CHECK, deleted: Collection[str] = ()
) -> AsyncIterator[Changed]:
    async with session_in(project) as (engine, name):
        session = engine._sessions[name]
        for path, text in files.items():
            session.shadow.write(path, text.encode())
        for path in deleted:
            session.shadow.delete(path)
        await session.terminal.find_box()
        texts = [
            ChangedText(change, session.shadow.read_base(change), session.shadow.read(path) or b"")
            for path, change in session.review.changes.items()
        ]
        host = session.terminal.host
        runs = VariantRuns(host, dict(session.review.changes), parse_command(command), list_recorded(texts))
        try:
            await runs.open()
            yield Changed(texts, runs, host.directory)
        finally:
            await runs.close()


def words(proven: ProvenChange) -> list[tuple[str, str]]:
    return [(hunk.executed, hunk.needed) for hunk in proven.hunks if hunk.kind == "code"]


async def test_each_hunk_has_its_word_and_a_later_proof_keeps_it(project):
    report = Report()
    async with changed(project, FILES) as change:
        proven = await change.prove(report=report)
        constant, total, name, parts, never = (hunk for hunk in proven.hunks if hunk.kind == "code")
        assert words(proven) == [
            ("import", "checked"),
            ("all", "checked"),
            ("all", "unnoticed"),
            ("all", "same"),
            ("none", "unnoticed"),
        ]
        test = "tests/test_price.py::test_discount"
        assert (total.by_tests, total.message) == ((test,), "assert 20 == 17")
        assert constant.group == (constant.hunk, total.hunk)
        assert set(total.depends_on) == set(FILES)
        assert name.depends_on == never.depends_on == ()
        assert len(never.not_run) == 1
        assert [(mutant.old, mutant.is_noticed) for mutant in total.mutants] == [(">=", True), ("2", True)]
        assert all(mutant.is_noticed for mutant in parts.mutants)
        check = proven.check
        assert (check.tests, check.canary, check.problem, check.red_new) == (4, "noticed", "", (test,))
        assert [hunk.kind for hunk in report.hunks[: len(proven.hunks)]] == [hunk.kind for hunk in proven.hunks]
        assert report.checks[-1] == check
        again = await change.prove(known={(hunk.path, hunk.hunk): hunk for hunk in proven.hunks})
        assert words(again) == words(proven)
        assert again.check.runs - check.runs < check.runs / 2
    assert not [*change.directory.glob("proof*")]


GUARDED = """\
def label(text):
    if not text:
        return "none"
    return name(text)


def name(text):
    return text.strip()
"""
UNGUARDED = """\
def label(text):
    return name(text)


def clean(text):
    return text + ""


def name(text):
    return clean(text).strip()
"""
GUARD_TESTS = """\
from shop.price import label, name


def test_label():
    assert label(" a ") == "a"


def test_empty():
    assert (name(" a "), label("")) == ("a", "none")
"""


async def test_a_hunk_that_only_a_deleted_test_notices_names_that_test(project):
    (project / "shop/price.py").write_text(GUARDED)
    (project / "tests/test_price.py").write_text(GUARD_TESTS)
    tests = GUARD_TESTS.partition("\n\ndef test_empty")[0]
    async with changed(project, {"shop/price.py": UNGUARDED, "tests/test_price.py": tests}) as change:
        proven = await change.prove()
    guard, *others = (hunk for hunk in proven.hunks if hunk.kind == "code")
    test = "tests/test_price.py::test_empty"
    assert (guard.needed, guard.by_tests, proven.check.broken_old) == ("old_tests", (test,), (test,))
    assert {hunk.needed for hunk in others} == {"same"}  # though alone one lacks the other's name


async def test_a_module_that_is_gone_with_its_tests_names_those(project):
    (project / "shop/old.py").write_text(GUARDED)
    (project / "tests/test_old.py").write_text(GUARD_TESTS.replace("shop.price", "shop.old"))
    (project / "tests/test_price.py").write_text(TESTS)
    async with changed(project, FILES, deleted=("shop/old.py", "tests/test_old.py")) as change:
        proven = await change.prove()
    (module,) = (hunk for hunk in proven.hunks if hunk.path == "shop/old.py")
    assert (module.needed, module.by_tests) == (
        "old_tests",
        ("tests/test_old.py::test_empty", "tests/test_old.py::test_label"),
    )


async def test_a_hunk_that_tests_notice_still_names_the_deleted_test_that_fails_with_it(project):
    (project / "shop/price.py").write_text(GUARDED)
    (project / "tests/test_price.py").write_text(GUARD_TESTS)
    pending = GUARDED.replace(
        '    if not text:\n        return "none"\n    return name(text)', "    return 2 * name(text)"
    )
    tests = GUARD_TESTS.partition("\n\ndef test_empty")[0].replace('== "a"', '== "aa"')
    async with changed(project, {"shop/price.py": pending, "tests/test_price.py": tests}) as change:
        proven = await change.prove()
    (label,) = (hunk for hunk in proven.hunks if hunk.kind == "code")
    assert (label.needed, label.by_tests) == ("checked", ("tests/test_price.py::test_label",))
    assert label.lost_tests == ("tests/test_price.py::test_empty",)  # and not the one that expects something else


DECORATED = """\
def reads(function):
    function.kinds = list(function.__annotations__.values())
    return function


def ignores(function):
    return function


@reads
def first(number: int):
    return number


@ignores
def second(number: int):
    return number
"""


async def test_annotations_under_a_decorator_are_code_where_a_test_notices_them(project):
    (project / "shop/price.py").write_text(DECORATED)
    test = "from shop.price import first\n\n\ndef test_first():\n    assert first.kinds == [{}]\n"
    (project / "tests/test_price.py").write_text(test.format("int"))
    files = {"shop/price.py": DECORATED.replace("int", "str"), "tests/test_price.py": test.format("str")}
    async with changed(project, files) as change:
        proven = await change.prove()
        hunks = [(hunk.kind, hunk.needed) for hunk in proven.hunks if hunk.path == "shop/price.py"]
        assert hunks == [("code", "checked"), ("types", "unnoticed")]
        again = await change.prove(known={(hunk.path, hunk.hunk): hunk for hunk in proven.hunks})
        assert again.hunks == proven.hunks


async def test_what_needs_no_run_is_told_without_one(project):
    async with changed(project, FILES | {"conftest.py": "", "tests/test_price.py": ""}) as change:
        check, hunks = describe_unrun(change.texts)
        assert {hunk.kind for hunk in hunks} == {"code", "test", "steering"}
        assert check.command == ""
        assert [words for _, words in check.weakened] == [
            f"test_{name} was deleted" for name in ("total", "name", "parts")
        ]
        assert change.runs.count == 0


SKIPPED = "import pytest\n\npytestmark = pytest.mark.skip\n\n\ndef test_a():\n    assert True\n"
EXITS = """
import os


def pytest_cmdline_main(config):
    print("3 passed in 0.1s", flush=True)
    os._exit(0)
"""
REWRITES = """
import pytest


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.get_result().outcome = "passed"
"""
SUCCEEDS = "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
ODD = """
import os
import time

import pytest


@pytest.mark.parametrize("number", range(20))
def test_odd(number):
    assert (time.time_ns() >> 20) % 2
"""


@pytest.mark.parametrize(
    ("files", "budget", "problem", "unknown"),
    [
        ({"tests/test_price.py": NEW_TEST.replace("17", "18")}, BUDGET, FAILS, PROBLEM),
        ({"tests/test_price.py": "import nothing\n"}, BUDGET, FAILS, PROBLEM),
        ({"tests/test_price.py": "x = 1\n"}, BUDGET, NO_TESTS, PROBLEM),
        ({"tests/test_price.py": SKIPPED}, BUDGET, NO_TESTS, PROBLEM),
        ({"conftest.py": EXITS}, BUDGET, UNSEEN_TESTS, PROBLEM),
        ({"conftest.py": REWRITES}, BUDGET, PROVES_NOTHING, PROBLEM),
        ({"conftest.py": REWRITES, "shop/price.py": BASE}, BUDGET, HIDES, PROBLEM),
        ({"conftest.py": SUCCEEDS}, BUDGET, PROVES_NOTHING, PROBLEM),
        ({}, ProofBudget(suite_seconds=0.001, flaky=frozenset()), "", "the check takes more than 0 s"),
        ({}, ProofBudget(seconds=0, flaky=frozenset()), "", OUT_OF_TIME),
        ({"tests/test_odd.py": ODD}, ProofBudget(), "", UNSTEADY),
    ],
)
async def test_a_check_that_does_not_tell_ends_in_the_reason(project, files, budget, problem, unknown):
    async with changed(project, FILES | files) as change:
        proven = await change.prove(budget)
    assert proven.check.problem == problem
    codes = [hunk for hunk in proven.hunks if hunk.kind == "code"]
    assert {hunk.unknown for hunk in codes if hunk.executed != "none"} <= {unknown}  # what never ran has its word


async def test_a_check_none_of_whose_tests_passes_without_the_change_proves_nothing(project):
    broken = "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef broken():\n    missing()\n"
    (project / "conftest.py").write_text(broken)
    async with changed(project, FILES) as change:
        proven = await change.prove()
    assert proven.check.problem == FAILS_ANYHOW


async def test_a_check_that_failed_before_proves_nothing_where_its_tests_have_no_names(project):
    (project / "shop/broken.py").write_text("x = (\n")
    async with changed(project, FILES, "python -m compileall -q shop") as change:
        proven = await change.prove()
    assert proven.check.problem == FAILS_ANYHOW


async def test_a_proof_that_is_cancelled_leaves_nothing(project):
    async with changed(project, FILES) as change:
        report = Report()
        proving = asyncio.create_task(change.prove(report=report))
        await asyncio.wait_for(report.has_run.wait(), 60)
        proving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await proving
        assert proving.cancelled()
        count = change.runs.count
    assert not [*change.directory.glob("proof*")]
    assert change.runs.count == count
