"""Lines from the reports of runners, as they were written by Go 1.19, jest 29 and Ruby 3.1 over the texts below."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.proof.runs.commands import parse_command
from core.proof.runs.line_reports import (
    LineReport,
    build_report_options,
    build_ruby_options,
    read_line_report,
)

GO = """package price

// Total adds what is due.
func Total(amounts []int, free bool) int {
	if free {
		// a gift
		return 0
	}
	sum := 0
	for _, amount := range amounts {
		sum += amount
	}
	return sum
}

func Label() string { return "total" }
"""
PROFILE = """mode: set
example.org/shop/price/price.go:4.42,5.10 1 1
example.org/shop/price/price.go:9.2,10.33 2 1
example.org/shop/price/price.go:13.2,13.12 1 1
example.org/shop/price/price.go:5.10,8.3 1 0
example.org/shop/price/price.go:10.33,12.3 1 1
example.org/shop/price/price.go:16.21,16.39 1 0
example.org/other/price/price.go:16.21,16.39 1 1
"""
SCRIPT = """const RATE = 2;

function total(amounts, free) {
  if (free) {
    return 0;
  }
  return amounts.reduce((sum, one) => sum + one, 0) * RATE;
}

module.exports = { total, label: () => 'total' };
"""
STATEMENTS = [
    (1, 13, 1, 14),
    (4, 2, 6, 3),
    (5, 4, 5, 13),
    (7, 2, 7, 59),
    (7, 38, 7, 47),
    (10, 0, 10, 49),
    (10, 39, 10, 46),
]
FUNCTIONS = [(3, 30, 8, 1), (7, 38, 7, 47), (10, 39, 10, 46)]
COUNTS = [1, 1, 0, 1, 2, 1, 0]
RUBY = """RATE = 2

def total(amounts, free)
  return 0 if free
  amounts.sum * RATE
end

def label
  "total"
end
"""


def extent(numbers: tuple[int, int, int, int]) -> dict[str, Any]:
    return {
        "start": {"line": numbers[0], "column": numbers[1]},
        "end": {"line": numbers[2], "column": numbers[3]},
    }


def write_istanbul(directory: Path, path: str) -> None:
    file = {
        "path": path,
        "statementMap": {str(number): extent(one) for number, one in enumerate(STATEMENTS)},
        "fnMap": {str(number): {"name": "f", "loc": extent(one)} for number, one in enumerate(FUNCTIONS)},
        "s": {str(number): count for number, count in enumerate(COUNTS)},
    }
    (directory / "istanbul").mkdir()
    (directory / "istanbul/coverage-final.json").write_text(json.dumps({path: file}))


def test_a_line_of_go_has_run_if_its_first_statement_lies_in_a_block_that_has(tmp_path):
    (tmp_path / "go.cover").write_text(PROFILE)
    sources = {"price/price.go": GO.encode(), "price/other.go": b"package price\n"}
    report = read_line_report(tmp_path, tmp_path, sources, "module example.org/shop\n\ngo 1.19\n")
    assert report.called == {"price/price.go": {5, 9, 10, 11, 13}}
    assert report.executable == {"price/price.go": {5, 7, 9, 10, 11, 13, 16}}
    assert report.loaded == {}


def test_a_profile_without_a_module_or_of_another_one_tells_nothing(tmp_path):
    (tmp_path / "go.cover").write_text(PROFILE)
    sources = {"price/price.go": GO.encode()}
    for module in ("", "module example.org/elsewhere\n"):
        assert read_line_report(tmp_path, tmp_path, sources, module) == LineReport()


def test_statements_of_scripts_count_where_they_begin_and_those_of_no_function_are_loaded(tmp_path):
    write_istanbul(tmp_path, f"{tmp_path}/price.js")
    report = read_line_report(tmp_path, tmp_path, {"price.js": SCRIPT.encode()}, "")
    assert report.called == {"price.js": {4, 7}}
    assert report.loaded == {"price.js": {1, 10}}
    assert report.executable == {"price.js": {1, 4, 5, 7, 10}}


@pytest.mark.parametrize("data", ["{", '{"a": {"path": 1}}', "[]"])
def test_what_is_no_report_tells_nothing(tmp_path, data):
    (tmp_path / "istanbul").mkdir()
    (tmp_path / "istanbul/coverage-final.json").write_text(data)
    (tmp_path / "go.cover").write_text(data)
    (tmp_path / "ruby-1.lines").write_text(data)
    sources = {"a.js": b"a", "a.go": b"a", "a.rb": b"a"}
    assert read_line_report(tmp_path, tmp_path, sources, "module a") == LineReport()


def test_a_link_to_a_file_elsewhere_is_not_followed(tmp_path):
    directory = tmp_path / "record"
    directory.mkdir()
    write_istanbul(tmp_path, f"{tmp_path}/price.js")
    (directory / "istanbul").symlink_to(tmp_path / "istanbul")
    assert read_line_report(directory, tmp_path, {"price.js": SCRIPT.encode()}, "") == LineReport()


def test_lines_of_ruby_in_methods_are_called_and_their_heads_are_loaded(tmp_path):
    row = "1,-,1,1,1,-,-,1,0,-"
    (tmp_path / "ruby-1.lines").write_text(f"{tmp_path}/price.rb\t{row}\n/elsewhere/price.rb\t{row}\n")
    report = read_line_report(tmp_path, tmp_path, {"price.rb": RUBY.encode()}, "")
    assert report.called == {"price.rb": {4, 5}}
    assert report.loaded == {"price.rb": {1, 3, 8}}
    assert report.executable == {"price.rb": {1, 3, 4, 5, 8, 9}}


@pytest.mark.skipif(shutil.which("ruby") is None, reason="Ruby is not installed")
@pytest.mark.parametrize("counts_itself", [False, True])
def test_ruby_records_itself_unless_the_project_counts_its_lines(tmp_path, counts_itself):
    (tmp_path / "price.rb").write_text(RUBY)
    (tmp_path / "files.json").write_text(json.dumps([str(tmp_path / "price.rb")]))
    own = "require 'coverage'; Coverage.start(branches: true); " if counts_itself else ""
    test = f"{own}require '{tmp_path}/price.rb'; fork {{ total([1], false) }}; Process.wait; exit(total([], true))"
    environment = {**os.environ, "AGENT_TUI_RECORD": str(tmp_path), "RUBYOPT": build_ruby_options("-W1")}
    subprocess.run(["ruby", "-e", test], env=environment, check=True)
    report = read_line_report(tmp_path, tmp_path, {"price.rb": RUBY.encode()}, "")
    assert report.called == ({} if counts_itself else {"price.rb": {4, 5}})


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_go_takes_the_options(tmp_path):
    (tmp_path / "go.mod").write_text("module example.org/shop\n")
    (tmp_path / "price").mkdir()
    (tmp_path / "price/price.go").write_text(GO)
    test = 'package price\n\nimport "testing"\n\nfunc TestIt(t *testing.T) { Total([]int{1}, false) }\n'
    (tmp_path / "price/price_test.go").write_text(test)
    check = parse_command("go test ./...")
    command = check.build(report=build_report_options(check, tmp_path, tmp_path))
    environment = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod"}
    subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, check=True, capture_output=True)
    sources = {"price/price.go": GO.encode()}
    report = read_line_report(tmp_path, tmp_path, sources, "module example.org/shop")
    assert report.called == {"price/price.go": {5, 9, 10, 11, 13}}


@pytest.mark.parametrize(
    ("command", "start"),
    [
        ("go test ./...", "go test -coverprofile=/d/go.cover -coverpkg=./... ./..."),
        ("CGO_ENABLED=0 go test -run Total ./price", "CGO_ENABLED=0 go test -coverprofile=/d/go.cover"),
        ("npx jest test/duration", "npx jest test/duration --coverage --coverageReporters=json"),
        ("node_modules/.bin/jest", "node_modules/.bin/jest --coverage "),
        ("go test -cover ./...", "go test -cover ./..."),
        ("cd x && go test ./...", "cd x && go test ./..."),
        ("npx vitest run", "npx vitest run"),  # its provider is not installed
        ("make test", "make test"),
    ],
)
def test_options_are_added_where_a_runner_takes_them(command, start):
    check = parse_command(command)
    built = check.build(report=build_report_options(check, Path("/d"), Path("/nowhere")))
    assert built.startswith(start)
    assert built == command or "/d/" in built


def test_vitest_writes_a_report_where_a_provider_is_installed(tmp_path):
    (tmp_path / "node_modules/@vitest/coverage-v8").mkdir(parents=True)
    check = parse_command("npx vitest run src")
    built = check.build(report=build_report_options(check, Path("/d"), tmp_path))
    assert built.startswith("npx vitest run src --coverage.enabled --coverage.reporter=json")


def test_the_variable_of_ruby_keeps_what_it_was():
    assert build_ruby_options("-W0").startswith("-W0 -r/")
    assert Path(build_ruby_options("")[2:]).is_file()
