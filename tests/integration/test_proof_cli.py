"""Proofs without a screen: `-p --proof`, `--accept proven` and `agent-tui proof`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.print_mode.headless import run_print
from core.cli.proof import parse, run
from core.errors import CommandRejected
from core.exits import ExitCode
from tests.support.agent_case import says
from tests.support.proven import CLAIM, OLD, OLD_TESTS, WORK, make_proven_project
from tests.support.story import access


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_proven_project(tmp_path, monkeypatch)


def work(project: Path, **options: object) -> int:
    """The exit code of `-p` after the work on code and tests."""
    arguments = PrintArguments(directory=project, prompt="Do it", **options)  # type: ignore[arg-type]
    return run_print(arguments, models=access([*WORK, says("Done.")]))


def test_a_run_prints_the_evidence_and_accepts_what_is_proven(project, capsys):
    assert work(project, accept=("proven",), proof=True, output_format="json") == ExitCode.REFUSED
    captured = capsys.readouterr()
    assert "shop/price.py:17" in captured.err
    assert "never ran" in captured.err
    price = (project / "shop/price.py").read_text()
    assert "return total * 2" in price
    assert 'return "old"' in price
    assert (project / "tests/test_price.py").read_text() == OLD_TESTS
    metadata = json.loads(captured.out)["metadata"]
    assert metadata["proof"]["canary"] == "noticed"
    [code] = [change for change in metadata["pendingChanges"] if change["path"] == "shop/price.py"]
    assert "never_ran" in [hunk["verdict"] for hunk in code["evidence"]]


def test_the_command_prints_each_hunk_and_its_exit_code_says_whether_one_is_worth_a_look(project, capsys):
    assert work(project) == ExitCode.DONE
    capsys.readouterr()
    assert run(parse(["--dir", str(project)])) == ExitCode.REFUSED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Check: python -m pytest -q: 3 tests")
    assert next(line for line in lines if line.startswith("shop/price.py:5")).split()[1] == "checked"
    assert (project / "shop/price.py").read_text() == OLD
    assert run(parse(["--dir", str(project), "--json", "--accept", str(project / "shop")])) == ExitCode.REFUSED
    record = json.loads(capsys.readouterr().out)
    assert {hunk["path"] for hunk in record["hunks"]} == {"shop/price.py"}
    assert {hunk["claim"] for hunk in record["hunks"]} == {CLAIM}
    assert record["check"]["command"] == "python -m pytest -q"
    assert "return total * 2" in (project / "shop/price.py").read_text()


def test_a_path_where_nothing_is_pending_is_named(project):
    assert work(project) == ExitCode.DONE
    with pytest.raises(CommandRejected, match="nothing is pending in docs"):
        run(parse(["--dir", str(project), "docs"]))


def test_without_a_session_nothing_is_pending(project, capsys):
    assert run(parse(["--dir", str(project)])) == ExitCode.DONE
    assert "nothing pending review" in capsys.readouterr().err
