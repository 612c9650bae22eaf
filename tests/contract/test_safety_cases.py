"""Every case of the catalogue has a test or a reason, and what the box has to hold has a test on every tier."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache

import pytest

from core.sandbox.tiers.selection import TIERS_BY_STRENGTH
from tests.contract.source_tree import ROOT, Function, Module, modules, program
from tests.support.box_tiers import NOT_PROMISED
from tests.support.safety_cases import (
    ABSENT,
    BLOCKING,
    CATALOGUE,
    EVERY_TIER,
    FILE,
    NETWORK,
    UNTESTED,
    read_catalogue,
)

SHARED = ROOT.parent / "shared" / "SAFETY.md"
SECTIONS = {name[0] for name in CATALOGUE} - {"n"}
CODE = re.compile(r"\bSAFETY\b|\b[A-Z][0-9]{1,3}[a-z]?\b")
OF_THE_FIELD = frozenset({"C0", "C1", "S3"})  # sets of control characters in ISO 6429; a store of objects


def cases_in(*tops: str) -> list[Function]:
    return [function for module in modules(*tops) for function in module.functions if function.name.startswith("test_")]


@cache
def named() -> frozenset[str]:
    """Every test as `file::name`."""
    return frozenset(
        f"{module.path.relative_to(ROOT)}::{function.name}"
        for module in modules("tests")
        for function in module.functions
        if function.name.startswith("test_")
    )


def ids_of(function: Function) -> list[str]:
    """The ids that a name begins with."""
    ids = []
    for part in function.name.split("_")[1:]:
        if not re.fullmatch(r"[a-z]{1,2}\d+[a-z]?", part):
            break
        ids.append(part)
    return ids


def covers(function: Function, case: str) -> bool:
    return case in ids_of(function)


@cache
def covered() -> frozenset[str]:
    by_name = {name for function in cases_in("tests") for name in ids_of(function) if name[0] != "n"}
    return frozenset(by_name & set(CATALOGUE) | set(NETWORK))


def tiers_of(function: Function) -> set[str]:
    """The tiers that a test of the box runs on, as root and as an ordinary user where the machine has both."""
    taken = {argument.arg for argument in function.args.args}
    if "locked" in taken:
        return {"T3"}
    return (
        {tier for tier in TIERS_BY_STRENGTH if function.name not in NOT_PROMISED[tier]} if "boxed" in taken else set()
    )


def test_n17_the_catalogue_is_whole():
    assert (len(CATALOGUE), len(BLOCKING)) == (127, 56)


@pytest.mark.skipif(not SHARED.exists(), reason="the catalogue itself is not beside this checkout")
def test_n17_the_copy_of_the_catalogue_is_the_catalogue():
    assert read_catalogue(SHARED.read_text(encoding="utf-8")) == CATALOGUE
    assert len(FILE.read_text(encoding="utf-8").splitlines()) == len(CATALOGUE)


@pytest.mark.parametrize("case", BLOCKING)
def test_n17_a_case_that_blocks_a_release_has_a_test(case):
    assert case in covered() | set(ABSENT), BLOCKING[case]


def test_n17_every_case_has_a_test_or_a_reason_and_not_both():
    reasons = {**ABSENT, **UNTESTED}
    assert set(CATALOGUE) - covered() - set(reasons) == set()
    assert set(reasons) <= set(CATALOGUE)
    assert covered() & set(UNTESTED) == set(), "these have a test now: take them out of UNTESTED"
    assert set(BLOCKING) & set(UNTESTED) == set()


def test_n17_the_tests_that_are_named_are_there():
    expected_tests = {test_name for tests in NETWORK.values() for test_name in tests} | {
        test for _, test in ABSENT.values()
    }
    assert expected_tests - named() == set()


def test_n17_an_id_in_a_name_is_that_of_a_case():
    odd = {
        f"{function.name}: {name}"
        for function in cases_in("tests")
        for name in ids_of(function)
        if name[0] in SECTIONS and name not in CATALOGUE
    }
    assert odd == set()


@pytest.mark.parametrize("case", sorted(EVERY_TIER))
def test_what_the_box_has_to_hold_is_tried_on_every_tier(case):
    tried = [tiers_of(function) for function in cases_in("tests/integration/box") if covers(function, case)]
    assert set(TIERS_BY_STRENGTH) - set().union(*tried) == set(), BLOCKING[case]


def test_what_is_tried_on_every_tier_is_on_the_list():
    assert set(BLOCKING) >= EVERY_TIER


def remarks(module: Module) -> Iterator[str]:
    """The comments and docstrings of a module."""
    for token in tokenize.generate_tokens(io.StringIO(module.path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield re.sub(r"noqa: [A-Z0-9, ]+", "", token.string)
    for node in module.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def test_a_code_in_a_comment_is_defined_in_the_docs():
    defined = set(CODE.findall("\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))))
    cited = {
        f"{module.path.relative_to(ROOT).as_posix()}: {code}"
        for module in (*program(), *modules("benchmarks", "tests"))
        for remark in remarks(module)
        for code in CODE.findall(remark)
        if code not in defined | OF_THE_FIELD
    }
    assert cited == set(), "say the reason at the place, or define the code in docs/"
