from __future__ import annotations

import pytest

from core.shell.verification.steering_files import find_steering

DECIDES = [
    "__init__.py", "tests/test_price.py", "shop/price_test.go", "src/price.test.ts", "spec/price_spec.rb",
    "conftest.py", "shop/conftest.py", "pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "package.json",
    "jest.config.js", "Makefile", "rules.mk", "CMakeLists.txt", "build.rs", "Cargo.toml", "sitecustomize.py",
    "usercustomize/__init__.py", "sitecustomize.cpython-312-x86_64-linux-gnu.so", "evil.pth", "pytest.py",
    "src/pytest.py", "_pytest/__init__.py", "pluggy.py", "json.py", "unittest.py", "unittest/__main__.py",
    "pytest_quiet.py", "x.egg-info/entry_points.txt", "scripts/check.sh", "bin/check",
    "node_modules/jest/index.js", ".github/workflows/ci.yml", "PyTest.INI",
]  # fmt: skip
DECIDES_NOTHING = [
    "shop/price.py", "src/index.ts", "shop/json.py", "README.md", "lib/price.rb", "types/index.ts", "platform/main.c",
    "main.go", "docs/guide.md", "shop/protest.py", "latest.py",
]  # fmt: skip


@pytest.mark.parametrize("path", DECIDES)
def test_n27_a_file_that_decides_what_a_check_does_is_known_by_its_name(path):
    assert find_steering(["shop/price.py", path], "pytest -q") == (path,)


@pytest.mark.parametrize("path", DECIDES_NOTHING)
def test_n27_code_and_prose_decide_nothing(path):
    assert find_steering([path], "pytest -q") == ()


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("./verify", "verify"),
        ("python run.py", "run.py"),
        ("make -f other.make", "other.make"),
        ("pytest --config-file=own.cfg", "own.cfg"),
        ("pytest -p quiet", "quiet.py"),
        ("python -c own.module", "own/module.py"),
        ("sh 'check all'", "nothing"),
    ],
)
def test_n27_a_file_that_the_command_starts_or_reads_as_a_setting_decides(command, path):
    assert find_steering([path], command) == ((path,) if path != "nothing" else ())


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("pytest -q probe.py", "probe.py"),
        ("pytest probe.py::test_a", "probe.py"),
        ("cd sub && pytest ./probe.py", "sub/probe.py"),
        ("node --test spec.mjs", "spec.mjs"),
        ("bin/check -q", "bin/check"),
    ],
)
def test_n27_a_file_that_a_run_of_tests_names_decides(command, path):
    assert find_steering(["shop/price.py", path], command, is_of_tests=True) == (path,)


def test_n27_a_file_that_a_command_only_looks_at_decides_nothing():
    assert find_steering(["shop/price.py"], "ruff check shop/price.py") == ()
