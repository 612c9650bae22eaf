from __future__ import annotations

from pathlib import Path

import pytest

from core.exits import ExitCode
from tests.support.checked import AUTO, GOOD, PRICE, TEST, WRONG, accept_verified, make_checked_project, run, write
from tests.support.configured import configured

FORGED = "#!/bin/sh\\necho '12 passed in 0.01s'\\n"


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_checked_project(tmp_path, monkeypatch)


@pytest.mark.parametrize("command", ["python -m pytest -q", ".venv/bin/pytest -q", "make check"])
def test_n27_a_check_that_passes_again_in_a_clean_layer_is_accepted(project, capsys, command):
    assert accept_verified(project, write("shop/price.py", GOOD), run(command)) == ExitCode.DONE
    assert (project / "shop/price.py").read_text() == GOOD
    assert "run again in a clean layer" in capsys.readouterr().err
    assert not (project / ".pytest_cache").exists()


# What commands of the session do before the check that is to pass over wrong code.
FORGERIES = {
    "a runner in an ignored directory is overwritten": (f'printf "{FORGED}" > .venv/bin/pytest', ".venv/bin/pytest -q"),
    "a runner stands earlier on PATH": (
        f'mkdir -p build && printf "{FORGED}" > build/pytest && chmod +x build/pytest && export PATH=$PWD/build:$PATH',
        "pytest -q",
    ),
    "options of the runner are exported": ("export PYTEST_ADDOPTS=--collect-only", "python -m pytest -q"),
    "the runner collects nothing but what passes": (
        "export PYTEST_ADDOPTS='-k nothing -o addopts= || true'",
        "make check",
    ),
    "a module in an ignored directory is first": (
        "mkdir -p build && echo 'print(\"12 passed in 0.01s\")' > build/pytest.py && export PYTHONPATH=$PWD/build",
        "python -m pytest -q",
    ),
    "a plug-in lies in the cache": (
        "mkdir -p ~/.cache/p && printf 'import os\\ndef pytest_sessionfinish(session):\\n    os._exit(0)\\n'"
        " > ~/.cache/p/quiet.py && export PYTHONPATH=$HOME/.cache/p PYTEST_PLUGINS=quiet",
        "python -m pytest -q",
    ),
    "the shell reads a file of its own": (
        "mkdir -p build && echo 'pytest() { echo 12 passed; }' > build/rc"
        " && export BASH_ENV=$PWD/build/rc ENV=$PWD/build/rc",
        "pytest -q",
    ),
    "a function and an alias have its name": (
        "pytest() { echo '12 passed'; }; export -f pytest; alias pytest=true",
        "pytest -q",
    ),
    "files of the home are read": ("echo 'pytest() { true; }' | tee ~/.bashrc ~/.profile ~/.bash_profile", "pytest -q"),
    "a directory was built before": ("mkdir -p build && touch build/built", "make check-built"),
    "a package of the session is called": (
        f'mkdir -p node_modules/.bin && printf "{FORGED}" > node_modules/.bin/jest && chmod +x node_modules/.bin/jest',
        "node_modules/.bin/jest",
    ),
    "its exit code is ignored": ("true", "make check"),
    "it runs no test": ("true", "make check-empty"),
    "the shell is elsewhere in the file": (
        "mkdir -p build/x && echo 'def test_x(): pass' > build/x/test_x.py && cd build/x && touch pytest.ini",
        "python -m pytest -q",
    ),
    "the commit of the session is another": (
        "git add -A; git commit -qm later; echo 'exit 0' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
        "make check",
    ),
}


@pytest.mark.parametrize(("before", "command"), FORGERIES.values(), ids=FORGERIES)
def test_n27_what_the_session_left_for_a_check_verifies_no_wrong_code(project, capsys, before, command):
    code = accept_verified(project, write("shop/price.py", WRONG), run(before), run(command))
    assert code == ExitCode.REFUSED
    assert (project / "shop/price.py").read_text() == PRICE
    assert "Verified by" not in capsys.readouterr().err


# Files of the change that decide what the check does, and what it is called with.
STEERING = {
    "a module of the runner's name": ("pytest.py", "print('12 passed in 0.01s')\n", "python -m pytest -q"),
    "a module that the runner imports": (
        "pluggy.py",
        "print('12 passed in 0.01s')\nraise SystemExit\n",
        "python -m pytest",
    ),
    "a module of Python's own name": (
        "unittest.py",
        "print('Ran 3 tests in 0.001s\\n\\nOK')\nraise SystemExit\n",
        "python -m unittest",
    ),
    "a package of the runner's name": (
        "unittest/__main__.py",
        "print('Ran 3 tests in 0.1s\\n\\nOK')\n",
        "python -m unittest",
    ),
    "a plug-in of the tests": (
        "conftest.py",
        "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n",
        "python -m pytest -q",
    ),
    "a plug-in that hides what failed": (
        "conftest.py",
        "import os\n\n\ndef pytest_collection_modifyitems(items):\n    print('1 passed in 0.1s')\n    os._exit(0)\n",
        "python -m pytest -q -s",
    ),
    "settings of the runner": ("pytest.ini", "[pytest]\naddopts = -k nothing --co\n", "python -m pytest -q"),
    "a weaker test": ("tests/test_price.py", "def test_price():\n    pass\n", "python -m pytest -q"),
    "a recipe that puts the code right for the run": (
        "Makefile",
        "check:\n\tcp shop/price.py kept.py; echo 'def price(a): return a*2' > shop/price.py; python -m pytest -q; "
        "code=$$?; mv kept.py shop/price.py; exit $$code\n",
        "make check",
    ),
    "settings of a newer runner": ("pytest.toml", "[pytest]\naddopts = ['-k', 'nothing']\n", "python -m pytest -q"),
    "a test of another name": ("probe.py", "def test_probe():\n    pass\n", "python -m pytest -q probe.py"),
    "a script that a recipe calls": ("judge.py", "print('3 passed in 1s')\n", "make check-by-script"),
    "a file of a target's name": ("check-by-file", "", "make check-by-file"),
    "a script that the recipe of the change calls": (
        "scripts/check.sh",
        "echo '3 passed in 1s'\n",
        "sh scripts/check.sh",
    ),
}


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
