from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.lsp.diagnostics import find_new_diagnostics
from core.protocol.language import Diagnostic
from core.tools.linters import (
    LintJob,
    build_script,
    format_command,
    parse_problems,
    plan_jobs,
)

ROOT = "/home/me/project"


def job(linter: str, *files: str, directory: str = ".") -> LintJob:
    return LintJob(linter=linter, directory=directory, files=files)


def problem(line: int, text: str = "E1 wrong", path: str = "a.py") -> Diagnostic:
    return Diagnostic(path=path, line=line, message=text)


@pytest.mark.parametrize(
    ("linter", "directory", "output", "found"),
    [
        ("ruff", ".", "src/a.py:3:8: F401 [*] `os` unused", ("src/a.py", 3, 8, "F401 [*] `os` unused")),
        (
            "mypy",
            "lib",
            'a.py:7:5: error: Name "x" is not defined  [name-defined]\na.py:7:5: note: See here\n',
            ("lib/a.py", 7, 5, 'error: Name "x" is not defined  [name-defined]'),
        ),
        (
            "pyright",
            ".",
            f'{ROOT}/a.py\n  {ROOT}/a.py:2:7 - error: "x" is not defined (report)\n1 error, 0 warnings\n',
            ("a.py", 2, 7, 'error: "x" is not defined (report)'),
        ),
        (
            "tsc",
            "web",
            "src/a.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.\n",
            ("web/src/a.ts", 1, 7, "error TS2322: Type 'string' is not assignable to type 'number'."),
        ),
        ("go vet", ".", "# example\nvet: ./m.go:3:2: undefined: y\n", ("m.go", 3, 2, "undefined: y")),
        ("go vet", ".", "./m.go:9: bad format\n", ("m.go", 9, 0, "bad format")),
        (
            "cargo check",
            "rs",
            "src/main.rs:3:5: error[E0425]: cannot find function `y` in this scope\nerror: could not compile\n",
            ("rs/src/main.rs", 3, 5, "error[E0425]: cannot find function `y` in this scope"),
        ),
        (
            "eslint",
            ".",
            f'[{{"filePath":"{ROOT}/a.js","messages":[{{"ruleId":null,"line":1,"column":4,"message":"No ;"}}]}}]',
            ("a.js", 1, 4, "error No ;"),
        ),
        ("eslint", ".", "Oops! Something went wrong!", None),
        ("ruff", ".", "/elsewhere/a.py:3:8: F401 x\n../up.py:1:1: F401 x\n", None),
    ],
)  # fmt: skip
def test_each_linters_output_is_read(linter, directory, output, found):
    seen = [
        (problem.path, problem.line, problem.column, problem.message)
        for problem in parse_problems(job(linter, directory=directory), output, ROOT)
    ]
    assert seen == ([found] if found else [])


def test_what_was_there_before_is_not_new_wherever_it_moved():
    before = [problem(5), problem(9), problem(20, "E2 other")]
    assert find_new_diagnostics([problem(7), problem(11), problem(2, "E2 other")], before) == []
    assert find_new_diagnostics([problem(1), problem(7), problem(11)], before) == [problem(1)]
    assert find_new_diagnostics([problem(5, path="b.py"), problem(5)], before) == [problem(5, path="b.py")]
    assert find_new_diagnostics([], before) == []


def test_a_linter_runs_where_its_configuration_is_nearest():
    configured = {("mypy", "."), ("eslint", "web"), ("tsc", "web/app")}
    lint_jobs = plan_jobs(
        ["a.py", "web/app/x.ts", "web/y.js", "README.md"], lambda linter, place: (linter.name, place) in configured
    )
    assert lint_jobs == [
        replace(job("ruff", "a.py"), bare=True),
        job("mypy", "a.py"),
        job("eslint", "web/app/x.ts", "web/y.js", directory="web"),
        job("tsc", "web/app/x.ts", directory="web/app"),
    ]


def test_a_command_names_files_so_that_the_shell_and_the_linter_take_them_as_such():
    text = build_script(job("eslint", "web/-rf $(x) 'y'.js", directory="web"), "disk")
    assert """ './-rf $(x) '"'"'y'"'"'.js'""" in text
    assert "../node_modules/.bin/eslint" in text
    assert "mypy-pending" in build_script(job("mypy", "a.py"), "pending")
    assert "a.go" not in build_script(job("go vet", "a.go"), "disk")


def test_ruff_without_a_configuration_looks_for_what_is_wrong_anywhere():
    assert "--select E9,F" in build_script(replace(job("ruff", "a.py"), bare=True), "disk")
    assert "--select" not in build_script(job("ruff", "a.py"), "disk")


def test_a_rule_can_speak_of_the_command():
    assert format_command(job("mypy", "lib/a b.py", directory="lib")).startswith("mypy --no-error-summary ")
    assert format_command(job("mypy", "lib/a b.py", directory="lib")).endswith(" './a b.py'")
    assert format_command(job("go vet", "a.go")) == "go vet ./..."
