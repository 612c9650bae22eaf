from __future__ import annotations

from pathlib import Path

import pytest

from core.exits import ExitCode
from tests.support.checked import AUTO, GOOD, PRICE, TEST, WRONG, accept_verified, make_checked_project, run, write
from tests.support.configured import configured
from tests.support.forgeries import FORGERIES, STEERING


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_checked_project(tmp_path, monkeypatch)


@pytest.mark.parametrize("command", ["python -m pytest -q", ".venv/bin/pytest -q", "make check"])
def test_n27_a_check_that_passes_again_in_a_clean_layer_is_accepted(project, capsys, command):
    assert accept_verified(project, write("shop/price.py", GOOD), run(command)) == ExitCode.DONE
    assert (project / "shop/price.py").read_text() == GOOD
    assert "run again in a clean layer" in capsys.readouterr().err
    assert not (project / ".pytest_cache").exists()


@pytest.mark.parametrize(("before", "command"), FORGERIES.values(), ids=FORGERIES)
def test_n27_what_the_session_left_for_a_check_verifies_no_wrong_code(project, capsys, before, command):
    code = accept_verified(project, write("shop/price.py", WRONG), run(before), run(command))
    assert code == ExitCode.REFUSED
    assert (project / "shop/price.py").read_text() == PRICE
    assert "Verified by" not in capsys.readouterr().err


@pytest.mark.parametrize(("path", "text", "command"), STEERING.values(), ids=STEERING)
def test_n27_what_the_change_itself_decides_the_check_by_is_named_and_verifies_nothing(
    project, capsys, path, text, command
):
    configured(AUTO + 'checks = ["sh scripts/check.sh"]\n')
    code = accept_verified(project, write("shop/price.py", WRONG), write(path, text), run(command))
    err = capsys.readouterr().err
    assert code == ExitCode.REFUSED
    assert (project / "shop/price.py").read_text() == PRICE
    assert "Verified by" not in err
    if "passed, but with tests or settings changed here" not in err:
        assert "pending review" in err


def test_n27_a_run_that_names_no_test_verifies_nothing(project, capsys):
    steps = (write("shop/price.py", WRONG), run("python -m doctest shop/price.py"))
    assert accept_verified(project, *steps) == ExitCode.REFUSED
    assert (project / "shop/price.py").read_text() == PRICE


def test_n27_tests_changed_with_good_code_are_named_and_left_to_the_user(project, capsys):
    more = f"{TEST}\n\ndef test_more():\n    assert price(0) == 0\n"
    steps = (write("shop/price.py", GOOD), write("tests/test_price.py", more), run("python -m pytest -q"))
    assert accept_verified(project, *steps) == ExitCode.REFUSED
    assert (project / "shop/price.py").read_text() == PRICE
    assert "passed, but with tests or settings changed here (tests/test_price.py)" in capsys.readouterr().err


def test_n27_a_dependency_of_the_session_alone_makes_a_check_unclear_in_plain_words(project, capsys):
    build = "mkdir -p node_modules/helper && echo 'VALUE = 6' > node_modules/helper/value.py"
    uses = "import sys\nsys.path.insert(0, 'node_modules/helper')\nfrom value import VALUE\n\n\n"
    uses += "def price(amount):\n    return VALUE\n"
    steps = (write("shop/price.py", uses), run(build), run("python -m pytest -q"))
    assert accept_verified(project, *steps) == ExitCode.REFUSED
    err = capsys.readouterr().err
    assert "`python -m pytest -q` could not be run clean: it exited with" in err
    assert "without the ignored files that the session's commands left (node_modules)" in err
    assert (project / "shop/price.py").read_text() == PRICE


def test_n27_what_is_protected_is_no_part_of_the_run_that_verifies_the_others(project, capsys):
    code = "import os\nos.environ['PYTEST_ADDOPTS'] = '--co'\n"
    steps = (write("shop/price.py", WRONG), write("sitecustomize.py", code), run("PYTHONPATH=. python -m pytest -q"))
    assert accept_verified(project, *steps) == ExitCode.REFUSED
    assert (project / "shop/price.py").read_text() == PRICE
    assert not (project / "sitecustomize.py").exists()


def test_n27_a_file_that_no_check_ran_over_is_not_judged_and_waits(project):
    steps = (write("shop/price.py", GOOD), run("python -m pytest -q"), write("shop/late.py", "LATE = 1\n"))
    assert accept_verified(project, *steps) == ExitCode.REFUSED
    assert (project / "shop/price.py").read_text() == GOOD
    assert not (project / "shop/late.py").exists()


def test_n27_checks_of_the_configuration_judge_what_no_check_of_the_session_ran_over(project):
    configured(AUTO + 'checks = ["python -m pytest -q"]\n')
    assert accept_verified(project, write("shop/price.py", GOOD)) == ExitCode.DONE
    assert (project / "shop/price.py").read_text() == GOOD


@pytest.mark.parametrize(("text", "code"), [(GOOD, ExitCode.DONE), (WRONG, ExitCode.REFUSED)])
def test_n27_what_was_edited_after_the_tests_is_judged_by_them_again(project, text, code):
    steps = (write("shop/price.py", f"{GOOD}\n"), run("python -m pytest -q"), write("shop/price.py", text))
    assert accept_verified(project, *steps) == code
    assert (project / "shop/price.py").read_text() == (text if code == ExitCode.DONE else PRICE)
