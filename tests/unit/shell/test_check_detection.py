from __future__ import annotations

import pytest

from core.protocol.review import Check
from core.shell.check_detection import CheckResult, detect_checks


def scope_of(check_result: CheckResult | None) -> tuple[int, tuple[str, ...]] | None:
    return (check_result.exit_code, check_result.paths) if check_result is not None else None


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q", "cd x && pytest", "cd x\nmypy .", "pytest && echo ok", ".venv/bin/pytest tests",
        "(cd x && pytest)", "(cd x || exit\npytest -q\n)",
        "python -m pytest",
        "FOO=1 timeout 60 uv run python3.11 -m pytest -x 2>&1", "npm test", "npm run test:unit -- --watch=false",
        "pnpm run typecheck", "yarn test", "cargo test --all", "go test ./...", "make", "make -j4", "make test",
        "make check",
        "ruff check .", "tsc --noEmit", "npx eslint src", "./gradlew test", "mvn -q test", "ctest --test-dir build",
        "python manage.py test", "poetry run tox", "env CI=1 nox", "bundle exec rspec",
    ],
)  # fmt: skip
def test_a_command_that_checks_is_known(command):
    for code in (1, 0):
        check_result = detect_checks(command, code)
        assert check_result is not None
        assert check_result.exit_code == code


@pytest.mark.parametrize(
    "command",
    [
        "ls", "echo 'a && pytest'", "make install", "make clean", "pytest || true", "pytest; echo done", "pytest &",
        "pytest --version", "ruff check . | cat; true", "git commit -m pytest", "cat pytest", "npm install",
        "'unclosed",
        "if pytest; then true; fi", "pytest | tee log && echo fine", "cargo run", "python script.py",
        "pytest --collect-only", "(pytest; true)", "(pytest | tee log)", "(cd x) && (pytest) || true",
    ],
)  # fmt: skip
def test_what_checks_nothing_or_hides_how_it_ended_is_no_check(command):
    assert detect_checks(command, 0, (0,)) is None


def test_a_check_at_the_head_of_the_last_pipeline_ends_as_the_pipeline_would():
    assert scope_of(detect_checks("pytest -q 2>&1 | tail -3", 0, (1, 0))) == (1, ())
    assert scope_of(detect_checks("cd x && pytest | tail", 0, (0, 0))) == (0, ())
    assert detect_checks("pytest | tail", 0) is None


def test_the_user_may_name_more():
    assert scope_of(detect_checks("bin/verify --fast", 3, extra=("bin/verify",))) == (3, ())
    assert scope_of(detect_checks("verify --fast", 3, extra=("verify",))) == (3, ())
    assert scope_of(detect_checks("nix flake check .", 0, extra=("nix flake check",))) == (0, ())


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("python3 -m py_compile a.py", ("a.py",)),
        ("pytest -q nothing; python3 -m py_compile a.py", ("a.py",)),
        ("cd src && ruff check -q app ../x.py", ("src/app", "x.py")),
        ("ruff check .", (".",)),
        ("ruff check a.py && npx eslint web", ("a.py", "web")),
        ("ruff check a.py && pytest tests/test_a.py", ()),
        ("mypy", ()),
        ("pytest tests/test_a.py", ()),
    ],
)
def test_a_tool_that_looks_at_files_one_by_one_says_nothing_of_others(command, paths):
    assert scope_of(detect_checks(command, 0)) == (0, paths)


def test_a_check_covers_what_it_was_told_to_look_at():
    check = Check(call="c", command="", exit_code=0, paths=("src", "a.py", "web/*.ts"))
    assert [check.covers(path) for path in ("src/x/y.py", "a.py", "web/a.ts")] == [True] * 3
    assert [check.covers(path) for path in ("src2/x.py", "b/a.py", "web/a.js")] == [False] * 3


@pytest.mark.parametrize("code", [4, 5])
@pytest.mark.parametrize("command", ["pytest -q", "python -m pytest tests", "uv run pytest", "coverage run -m pytest"])
def test_n16a_a_runner_that_ran_nothing_finds_nothing(command, code):
    assert detect_checks(command, code) is None
    assert scope_of(detect_checks(f"{command} && ruff check .", 1)) == (1, ())


def test_n16a_only_the_runner_whose_code_it_is_ran_nothing():
    assert detect_checks("python -m unittest", 5) is None
    assert detect_checks("ruff check .", 5) is not None
    assert scope_of(detect_checks("make test", 5)) == (5, ())
    assert detect_checks("pytest | tee log", 0, (5, 0)) is None


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("python -m compileall src", "syntax"), ("python3 -m py_compile a.py && ls", "syntax"),
        ("node --check a.js", "syntax"), ("mypy .", "types"), ("npx tsc --noEmit", "types"), ("cargo check", "types"),
        ("ruff check tests", "lint"), ("ruff format --check .", "lint"), ("go vet ./...", "lint"),
        ("go build", "build"), ("cargo clippy", "lint"), ("cargo build", "build"),
        ("pytest -q", "tests"), ("npm run test:unit", "tests"), ("mvn -q verify", "tests"), ("go test ./...", "tests"),
        ("ruff check . && python -m compileall . && pytest", "tests"), ("make", "check"), ("make check", "check"),
    ],
)  # fmt: skip
def test_a_check_proves_no_more_than_its_strongest_command_can(command, kind):
    check_result = detect_checks(command, 0)
    assert check_result is not None
    assert check_result.kind == kind


def test_the_exit_codes_of_a_runner_of_the_users_own_prove_what_its_name_says():
    assert detect_checks("./run test", 0, extra=["./run test"]) == CheckResult(0, (), "tests")
    assert detect_checks("./prove", 0, extra=["./prove"]) == CheckResult(0, (), "check")


def test_n27_the_user_s_command_is_matched_as_it_is_written():
    extra_commands = ("python tests/runtests.py",)
    assert scope_of(detect_checks("python tests/runtests.py basic", 0, extra=extra_commands)) == (0, ())
    assert detect_checks("python tests/other.py", 0, extra=extra_commands) is None


@pytest.mark.parametrize(
    "command",
    [
        "trap 'exit 0' EXIT; pytest", "true || pytest", "exit 0; pytest", "false || exit 0; pytest", "eval x; pytest",
        "pytest() { true; }; pytest", "alias pytest=true; pytest", "PATH=.:$PATH pytest", "export PATH=.; pytest",
        "PYTEST_ADDOPTS=--co pytest", "export PYTEST_ADDOPTS=--co\npytest", "source x.sh; pytest", "set +e; pytest",
        "exec true; pytest", "hash -p /bin/true pytest; pytest", "make -i", "make -t test", "make test SHELL=/bin/true",
        "pytest --markers", "pytest --fixtures", "cargo test --no-run", "jest --passWithNoTests",
        "ruff check --exit-zero",
        "mvn test -DskipTests", "gradle test -x test", "go test -exec true ./...", "command -v pytest", "cat ci.log",
        "echo '12 passed'", "(exit 0; pytest); cat ci.log", "(exit; pytest -q) && true", "(cd . && pytest -q); true",
        "cat <<pytest\n12 passed\npytest", "cat <<-'pytest' && true\n12 passed\n\tpytest",
    ],
)  # fmt: skip
def test_n26_what_may_not_have_checked_gets_no_tick(command):
    assert detect_checks(command, 0, (0,)) is None


@pytest.mark.parametrize(
    "command",
    [
        "source .venv/bin/activate && pytest",
        "set -euo pipefail; pytest",
        "set -o pipefail; pytest -q",
        "export DEBUG=1 && make test",
        "pytest -n auto",
        "(cd api && pytest)",
        "cat > notes.txt <<'EOF'\npytest\nEOF\npytest -q",
    ],
)
def test_n26_what_people_do_before_a_check_leaves_it_one(command):
    assert detect_checks(command, 0) is not None
