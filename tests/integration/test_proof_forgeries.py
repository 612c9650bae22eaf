"""Ways to let a check pass over wrong code: a proof says that the check fails or proves nothing, and accepts none."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.print_mode.headless import run_print
from core.exits import ExitCode
from tests.support.agent_case import Step, says
from tests.support.checked import AUTO, PRICE, WRONG, make_checked_project, run, write
from tests.support.configured import configured
from tests.support.forgeries import FORGERIES, STEERING
from tests.support.story import access

DOUBTS = ("the check fails", "the check proves nothing", "nothing notices", "never ran", "only old tests notice")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_checked_project(tmp_path, monkeypatch)


def accept_proven(project: Path, *steps: Step) -> int:
    """The exit code of `-p --accept proven` after these steps."""
    options = PrintArguments(directory=project, prompt="Do it", accept=("proven",), proof=True)
    return run_print(options, models=access([*steps, says("Done.")]))


def check_nothing_proven(project: Path, code: int, err: str) -> None:
    assert code == ExitCode.REFUSED
    assert (project / "shop/price.py").read_text() == PRICE
    [row] = [line for line in err.splitlines() if line.startswith("shop/price.py:")] or [""]
    assert any(doubt in row for doubt in DOUBTS) or "No tests have run" in err


@pytest.mark.parametrize(("before", "command"), FORGERIES.values(), ids=FORGERIES)
def test_what_the_session_left_for_a_check_proves_no_wrong_code(project, capsys, before, command):
    code = accept_proven(project, write("shop/price.py", WRONG), run(before), run(command))
    check_nothing_proven(project, code, capsys.readouterr().err)


@pytest.mark.parametrize(("path", "text", "command"), STEERING.values(), ids=STEERING)
def test_what_the_change_itself_decides_the_check_by_proves_no_wrong_code(project, capsys, path, text, command):
    configured(AUTO + 'checks = ["sh scripts/check.sh"]\n')
    code = accept_proven(project, write("shop/price.py", WRONG), write(path, text), run(command))
    check_nothing_proven(project, code, capsys.readouterr().err)
