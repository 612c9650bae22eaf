"""What is installed is what was published, under a licence that may be shipped, and all of it was asked for by name."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
from functools import cache
from re import _parser

import pytest

from tests.contract.source_tree import ROOT, imports, modules, program, project
from tests.contract.test_layers import declared, distributions, normalised, undeclared
from tests.contract.test_packaging import pins

LOCKS = ("requirements.lock", "requirements-dev.lock")
PINNED = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[0-9][0-9A-Za-z.!+]*)(?: ; (?P<marker>[\w .<>=!'()]+))?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
STALE = "run `make lock`, which works the hashes out anew"
# The locks serve every platform; these never come to one that the program runs on.
ELSEWHERE = re.compile(r"sys_platform == '(win32|emscripten)'")
# Whatever is not here is refused until somebody has read it: no GPL, no AGPL, no FSL.
FREE = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "CNRI-Python",
    "ISC",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "MPL-1.1",
    "MPL-2.0",
    "PSF-2.0",
    "Unlicense",
    "Zlib",
}
# How a classifier or an old free text says the same.
SAME = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
# What their metadata do not say stands in the licence files that they bring.
READ = {"agent-client-protocol": "Apache-2.0"}
# The driver of PostgreSQL: replaced at will, asked for by the extra `team` alone.
OPTIONAL = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only", "psycopg-pool": "LGPL-3.0-only"}
# Needed although no import statement names it: a program that is run, a library that is imported by a name in a table.
NAMED_ELSEWHERE = {
    "ripgrep": ("core/tools/builtin/reading/ripgrep.py", '"rg"'),
    "openai": ("core/providers/connection/lean_import.py", '"openai"'),
    "anthropic": ("core/providers/connection/lean_import.py", '"anthropic"'),
    "pypdf": ("core/attachments/pdf_reader.py", '"pypdf"'),
    "selectolax": ("core/web/page_reader.py", '"selectolax.lexbor"'),
    "markdownify": ("core/web/page_reader.py", '"markdownify"'),
    "websockets": ("core/transports/http/server.py", '"websockets-sansio"'),
}


def entries(lock: str) -> dict[str, tuple[str, str, list[str]]]:
    """Version, marker and hashes of every package in a lock, by name; the shape of every line is checked on the way."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    packages: dict[str, tuple[str, str, list[str]]] = {}
    for logical in text.replace("\\\n", " ").splitlines():
        head, *hashes = re.split(r"\s+(?=--hash)", logical.strip())
        match = PINNED.fullmatch(head.strip())
        assert match, f"{lock}: {head}"
        assert all(HASH.fullmatch(digest) for digest in hashes), f"{lock}: {head}"
        packages[match["name"]] = (match["version"], match["marker"] or "", hashes)
    return packages


@pytest.mark.parametrize("lock", LOCKS)
def test_n19_a_lock_holds_names_versions_and_hashes_and_names_no_place(lock):
    assert len(entries(lock)) > 50
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert [word for word in ("://", "@", "--index", "--find-links", "file:") if word in text] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_n19_every_package_of_a_lock_has_the_hashes_of_its_files(lock):
    assert [name for name, (_, _, hashes) in entries(lock).items() if not hashes] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_n19_a_lock_pins_what_the_constraints_pin(lock):
    here = {name: version for name, (version, marker, _) in entries(lock).items() if not ELSEWHERE.search(marker)}
    known = pins()
    assert {name: version for name, version in here.items() if known.get(name) != version} == {}, STALE


def requirement_names(distribution: importlib.metadata.Distribution) -> set[str]:
    """What a distribution asks for here: no extra, and nothing whose marker left it out of this environment."""
    plain = [line for line in distribution.requires or [] if "extra ==" not in line]
    return {normalised(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in plain}


@cache
def installed() -> dict[str, importlib.metadata.Distribution]:
    return {normalised(distribution.name): distribution for distribution in importlib.metadata.distributions()}


def closure(names: set[str]) -> set[str]:
    """These distributions and all that they need, as far as it is installed here."""
    needed_names: set[str] = set()
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        if name in needed_names or name not in installed():
            continue
        needed_names.add(name)
        waiting += requirement_names(installed()[name])
    return needed_names


@pytest.mark.parametrize(("lock", "extras"), [("requirements.lock", ()), ("requirements-dev.lock", ("dev",))])
def test_n19_a_lock_holds_all_that_its_packages_need(lock, extras):
    assert closure(declared(*extras) | {"hatchling"}) - entries(lock).keys() == set(), STALE


def recipe(*goals: str) -> str:
    """What `make` would do on a machine on which nothing is installed."""
    command = ["make", "--always-make", "--dry-run", "VENV=absent", *goals]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.replace("\\\n", " ")


@pytest.mark.parametrize(("goal", "lock"), [("run", "requirements.lock"), ("test", "requirements-dev.lock")])
def test_n19_make_installs_by_hash_and_the_program_without_an_index(goal, lock):
    text = recipe(goal)
    assert f"install --require-hashes --requirement {lock}" in text
    assert "install --no-deps --no-build-isolation --editable ." in text
    assert '[ "on" = off ]' in text


def test_n19_hashes_are_given_up_by_the_one_who_says_so_alone():
    assert "HASHES ?= on" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "HASHES" not in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def licences(distribution: importlib.metadata.Distribution) -> list[str]:
    """Each inner list is a choice, SPDX where the package says so; [] where it says nothing."""
    meta = distribution.metadata
    if expression := meta.get("License-Expression"):
        return [expression]
    classifiers = [line.split(" :: ")[-1] for line in meta.get_all("Classifier") or [] if line.startswith("License")]
    names = [line for line in classifiers if line not in ("OSI Approved", "DFSG approved")]
    short = (meta.get("License") or "").strip()
    return names or ([short] if short and "\n" not in short else [])


def is_free(expression: str) -> bool:
    """Whether one alternative of an SPDX expression grants all that shipping and linking needs."""
    alternatives = re.split(r"\s+OR\s+", SAME.get(expression, expression))
    parts = [re.split(r"\s+AND\s+", alternative) for alternative in alternatives]
    return any({SAME.get(name, name) for name in part} <= FREE for part in parts)


@pytest.mark.parametrize("extras", [(), ("dev",)], ids=["run", "dev"])
def test_n19_every_package_has_a_licence_that_was_read_and_is_free(extras):
    packages = closure(declared(*extras) | {"hatchling"})
    licences_by_name = {name: licences(installed()[name]) or [READ[name]] * (name in READ) for name in packages}
    assert len(packages) > 50
    if extras:
        assert all(licences_by_name.pop(name) == [licence] for name, licence in OPTIONAL.items() if name in packages)
    assert {
        name: expressions
        for name, expressions in licences_by_name.items()
        if not expressions or not all(map(is_free, expressions))
    } == {}


@pytest.mark.parametrize(
    "expression",
    ["GPL-3.0-only", "AGPL-3.0-or-later", "FSL-1.1-MIT", "LGPL-2.1-only", "MIT AND GPL-2.0-only", "UNKNOWN"],
)
def test_n19_a_licence_that_binds_our_users_is_not_free(expression):
    assert not is_free(expression)
    assert is_free(f"{expression} OR MIT") or " AND " in expression


def test_n19_the_scripts_of_the_documentation_import_only_declared_dependencies():
    statements = [statement for module in modules("docs") for statement in imports(module)]
    foreign = [statement for statement in statements if statement.target.split(".")[0] != "docs"]
    assert undeclared(foreign, declared("dev")) == []


def imported_by_the_program() -> set[str]:
    """Distributions that an import of the program names; a grammar's name stands in a table."""
    tops = {statement.target.split(".")[0] for module in program() for statement in imports(module)}
    strings = {
        node.value.split()[0]
        for module in program()
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"tree_sitter_\w+", node.value)
    }
    return {owner for name in tops | strings for owner in distributions().get(name, set())}


def test_n19_every_dependency_is_used_by_the_program():
    for path, word in NAMED_ELSEWHERE.values():
        assert word in (ROOT / path).read_text(encoding="utf-8")
    assert declared() - imported_by_the_program() - NAMED_ELSEWHERE.keys() == set()


def test_n19_the_build_backend_is_locked_too():
    backends = {"hatchling"}
    assert backends <= entries("requirements.lock").keys() & entries("requirements-dev.lock").keys()
    assert project()["dynamic"] == ["version"]


def patterns() -> list[tuple[str, str]]:
    """Every regular expression that stands as a literal in the program, with its place."""
    calls = [(module, node) for module in program() for node in module.nodes if isinstance(node, ast.Call)]
    return [
        (f"{module.name}:{call.lineno}", call.args[0].value)
        for module, call in calls
        if ast.unparse(call.func).startswith("re.") and call.args and isinstance(call.args[0], ast.Constant)
    ]


def test_n19_no_pattern_is_possessive_because_python_before_3_11_5_matches_those_wrongly():
    all_patterns = patterns()
    assert len(all_patterns) > 100
    assert [pattern for pattern in all_patterns if re.search("POSSESSIVE|ATOMIC", str(_parser.parse(pattern[1])))] == []
