from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shell.verification.single_check import NotACheck, SingleCheck, parse_check, parse_checks, parse_single_check

FORGERIES = [
    "pytest -q | cat - log.txt", "pytest | tail log.txt", "pytest | grep -f log.txt", "pytest | grep passed log.txt",
    "pytest -q @args.txt", "python -m pytest @args.txt", "mypy @args",
    "trap 'exit 0' EXIT; pytest", "trap 'exit 0' EXIT && pytest", "true || pytest", "pytest || true", "pytest; true",
    "exit 0; pytest", "exit 0 && pytest", "pytest() { true; }", "pytest() { true; }; pytest",
    "pytest() { :; } && pytest", "function pytest { true; }; pytest", "alias pytest=true; pytest",
    "alias pytest=true && pytest", "eval pytest", "exec true && pytest", "source x.sh && pytest",
    ". ./x.sh && pytest", "set +e && pytest", "pytest &", "! pytest", "pytest && true &",
    "if true; then true; else pytest; fi", "(pytest; true)", "(pytest)", "{ pytest; }", "pytest\ntrue",
    "pytest\\\n || true", "pytest | sed s/failed/passed/", "pytest 2>&1 | tee log | sh", "pytest > report.txt",
    "pytest >> log", "pytest <<< x", "pytest < /dev/null", "$(echo pytest)", "`echo pytest`", "pytest $X",
    'pytest "$X"', "pytest ${X:---co}", "pytest {--co,}", "pytest *", "pytest [a-]*", "command -v pytest",
    "which pytest", "type pytest", "hash -p /bin/true pytest && pytest", "enable -n pytest && pytest",
    "bash -c pytest", "sh -c 'exit 0'", "cat ci.log", "echo '12 passed'", "printf '12 passed\\n'",
    "grep passed ci.log", "tail ci.log", "head -1 ci.log", "python -c 'print(\"1 passed\")'", "python pytest.py",
    "python -O -m pytest", "python -i -m pytest", "test -f pytest", "PATH=.:/bin pytest",
    "PYTEST_ADDOPTS=--co pytest", "PYTEST_PLUGINS=evil pytest", "BASH_ENV=x pytest", "PYTHONPATH=evil pytest",
    "PYTHONSTARTUP=x pytest", "LD_PRELOAD=./x.so pytest", "NODE_OPTIONS=--require=./x npm test",
    "MAKEFLAGS=-i make test", "GOFLAGS=-run=XXX go test ./...", "CARGO_TARGET_DIR=x cargo test",
    "export A=b && pytest", "env -i pytest", "env PATH=. pytest", "env -S 'pytest --co'", "nice -n 5 pytest --help",
    "time -o x pytest", "timeout 5 true && pytest --co", "uv run --with evil pytest",
    "uv run --project /tmp/x pytest", "npx -p evil pytest", "npx --package=evil jest", "/tmp/bin/pytest", "../pytest",
    "~/pytest", "./evil/pytest", "bin/../../pytest", "cd /tmp && pytest", "cd .. && pytest", "cd a/../.. && pytest",
    "cd - && pytest", "cd && pytest", "pytest /tmp/tests", "pytest ../tests", "pytest ~/tests", "pytest --co",
    "pytest --collect-only", "pytest --markers", "pytest --fixtures", "pytest --version", "pytest -h",
    "pytest --setup-plan", "pytest --setup-only", "pytest -p evil", "pytest -pevil", "pytest -c /dev/null",
    "pytest -cx.ini", "pytest -o addopts=--co", "pytest --override-ini=addopts=", "pytest --rootdir=/tmp",
    "pytest --confcutdir=x", "pytest --pyargs x", "pytest -W error", "pytest --cov-config=x", "make -i",
    "make -i test", "make -ki test", "make -t test", "make -n test", "make -q test", "make --ignore-errors test",
    "make --touch test", "make --question test", "make --just-print test", "make -f /tmp/M test", "make -fM test",
    "make -C /tmp test", "make -C ../x test", "make SHELL=/bin/true", "make test SHELL=/bin/true",
    "make --eval=x: test", "make MAKEFLAGS=-i test", "make -o test test", "make -W x test", "make --file=x test",
    "make install", "cargo test --no-run", "cargo test -- --list", "cargo test --config x",
    "cargo test --manifest-path /tmp/Cargo.toml", "cargo +evil test", "go test -exec true ./...",
    "go test -list . ./...", "go test -c", "go test -n ./...", "go test -vet=off -toolexec x ./...",
    "go test -overlay x.json ./...", "go vet -n ./...", "npm test --if-present", "npm test --ignore-scripts",
    "npm test --script-shell=/bin/true", "npm --prefix /tmp test", "jest --passWithNoTests", "jest --listTests",
    "jest --config x", "jest --showConfig", "vitest run --passWithNoTests", "vitest list", "mocha --dry-run",
    "mocha -r evil.js", "node --test --import ./x.mjs", "node --require ./x --test", "eslint --no-eslintrc -c x .",
    "ruff check --exit-zero .", "ruff check --config x .", "mypy --version", "mypy -c 'x'", "tsc --showConfig",
    "tsc --listFilesOnly", "mvn test -DskipTests", "mvn test -Dmaven.test.skip=true", "mvn -f /tmp test",
    "gradle test -m", "gradle test --dry-run", "gradle test -x test", "gradle -I x test", "gradle -p /tmp test",
    "tox -l", "tox --notest", "nox -l", "ctest -N", "ctest --show-only", "dotnet test --list-tests",
    "rspec --dry-run", "rspec -r ./evil", "phpunit --list-tests", "phpunit -c /tmp/x.xml", "pre-commit run --files x",
    "ninja -n", "bazel test --x",
]  # fmt: skip

GENUINE = [
    "set -o pipefail; pytest -q | tail -5", "set -e; pytest -q", "set -euo pipefail && pytest -q 2>&1 | tail -n 20",
    "pytest -q | grep -v warning | head -50", "pytest -q | tee log.txt",
    "pytest", "pytest -q", "pytest -xvs tests", "pytest -n auto", "pytest -n 4 --dist loadfile",
    "pytest --tb=short -q", "pytest tests/test_a.py::TestB::test_c -vv", "pytest --timeout=60 -q",
    "pytest --cov=pkg --cov-report=xml", "pytest -p no:cacheprovider", "pytest --maxfail=1 --durations=10",
    "pytest --doctest-modules src", "py.test -q", "python -m pytest", "python3 -m pytest -q tests/unit",
    "python3.12 -m pytest", "python -B -m pytest", "pytest -ra", ".venv/bin/pytest", ".venv/bin/python -m pytest -q",
    "venv/bin/python -m unittest", "/usr/bin/python3 -m pytest", "cd backend && pytest -q", "cd a && cd b && pytest",
    "source .venv/bin/activate && pytest -q", "cd backend && . .venv/bin/activate && python -m pytest -x",
    "pytest -q 2>&1 | tail -20", "pytest -q | head -50", "pytest 2>/dev/null", "pytest > /dev/null 2>&1",
    "timeout 300 pytest", "timeout 60s pytest -q 2>&1 | grep -i fail", "CI=1 npm test", "NO_COLOR=1 pytest",
    "PYTHONPATH=src pytest", "PYTHONPATH=. python -m pytest", "env CI=1 pytest", "uv run pytest",
    "uv run --frozen pytest -n auto", "uv run python -m pytest", "poetry run pytest", "pdm run pytest",
    "pipenv run pytest", "hatch run pytest", "tox", "tox -e py311", "nox -s tests", "coverage run -m pytest -q",
    "python -m coverage run -m pytest", "python -m unittest", "python -m unittest discover -s tests -v",
    "python -m unittest tests.test_a", "python manage.py test", "python manage.py test app --parallel 4",
    "python -m compileall -q src", "python -m doctest README.md", "mypy .", "mypy --strict src", "python -m mypy src",
    "ruff check .", "ruff format --check src tests", "black --check .", "flake8 src", "pylint pkg", "pyright",
    "npm test", "npm run test", "npm run test:unit -- --watch=false", "npm test -- --coverage",
    "npm run lint && npm test", "npx jest --ci", "npx vitest run", "npx tsc --noEmit",
    "npx tsc --noEmit -p tsconfig.json", "npx eslint . --max-warnings=0", "yarn test --watchAll=false", "yarn lint",
    "pnpm test", "pnpm run typecheck", "bun test", "deno test --allow-all", "node --test",
    "node --test test/a.test.js", "mocha --timeout 5000", "tsc -b", "prettier --check .", "biome ci", "cargo test",
    "cargo test --workspace --all-features", "cargo test -p core", "cargo test -- --nocapture", "cargo nextest run",
    "cargo clippy --all-targets -- -D warnings", "cargo check --locked", "RUST_BACKTRACE=1 cargo test",
    "go test ./...", "go test ./... -race -count=1", "go test -v ./pkg/...", "go vet ./...", "go build ./...", "make",
    "make test", "make -j4 check", "make -C sub test", "make -s test 2>&1 | tail -5", "make lint test", "mvn test",
    "mvn -B verify", "./mvnw -q test", "./gradlew test --no-daemon", "gradle test --tests com.x.Y", "sbt test",
    "bundle exec rspec", "rspec spec/models", "bundle exec rubocop", "rake test", "bin/rails test", "phpunit",
    "vendor/bin/phpunit --filter X", "composer test", "mix test", "swift test", "dotnet test -c Release",
    "ctest --test-dir build --output-on-failure", "cmake --build build", "ninja -C build", "meson test -C build",
    "shellcheck run.sh", "bats tests", "pre-commit run --all-files", "ruff check . && mypy . && pytest -q",
]  # fmt: skip


@pytest.mark.parametrize("command", FORGERIES)
def test_n27_what_may_end_well_without_having_checked_is_no_check(command):
    checks = parse_checks(command)
    assert isinstance(checks, NotACheck)
    assert checks.reason


@pytest.mark.parametrize("command", GENUINE)
def test_n27_what_people_and_agents_really_run_is_a_check(command):
    checks = parse_checks(command)
    assert not isinstance(checks, NotACheck), checks.reason
    assert all(parse_single_check(check.command) == check for check in checks)


def test_n27_only_the_check_itself_is_run_again():
    check = parse_single_check("cd app && timeout 60 pytest -q tests 2>&1 | tail -3")
    assert isinstance(check, SingleCheck)
    assert check.command == "cd app && timeout 60 pytest -q tests"
    assert isinstance(parse_single_check("ruff check . && pytest"), NotACheck)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pytest --lf", ("--lf",)), ("go test -run TestA ./...", ("-run TestA",)),
        ("cargo test -p core", ("-p core",)), ("pytest -q", ()), ("node --test", ()),
    ],
)  # fmt: skip
def test_n27_a_run_of_a_part_of_the_tests_says_which_words_chose_it(command, words):
    check = parse_single_check(command)
    assert isinstance(check, SingleCheck)
    assert check.narrowed_by == words


@pytest.mark.parametrize(
    "command",
    [
        "pytest -k 'not slow'", "pytest -knot_this", "pytest -m unit", "pytest --deselect=tests/a.py::test_x",
        "pytest --ignore tests/x", "go test -skip TestA ./...", "cargo test -- --skip slow", "ctest -E slow",
    ],
)  # fmt: skip
def test_n27_a_run_that_leaves_tests_out_may_have_left_out_those_that_fail(command):
    checks = parse_checks(command)
    assert isinstance(checks, NotACheck)
    assert "skips tests" in checks.reason


@pytest.mark.parametrize(
    ("command", "alone"),
    [
        ("cd /work/shop && cd app && pytest -q", "cd app && pytest -q"), ("cd /work/shop && pytest", "pytest"),
        ("cd /work/shop/app && pytest", "cd app && pytest"), ("cd /work/shop2 && pytest", None),
        ("cd /work/shop/../x && pytest", None), ("cd /work && pytest", None),
    ],
)  # fmt: skip
def test_n27_the_project_may_be_entered_by_its_full_name(command, alone):
    check = parse_single_check(command, workspace="/work/shop")
    assert (check.command if isinstance(check, SingleCheck) else None) == alone


def test_n27_a_command_that_the_configuration_names_whole_counts_whatever_it_is():
    whole = "./verify --all && ./verify --docs"
    assert parse_check(whole, (whole,)) is not None
    assert parse_check("./verify; true", ("./verify",)) is None


def test_n27_a_command_of_the_user_s_configuration_is_taken_as_it_is_written():
    known_commands = ["python tests/runtests.py", "bin/verify --all"]
    for command in ("python tests/runtests.py", "python tests/runtests.py basic -v2", "bin/verify --all"):
        check = parse_single_check(command, patterns=known_commands)
        assert isinstance(check, SingleCheck)
        assert check.command == command
    for command in ("python tests/runtests.pyx", "python tests/other.py", "bin/verify", "true || bin/verify --all"):
        assert isinstance(parse_single_check(command, patterns=known_commands), NotACheck)


SIGNS = (";", "||", "&", "|", "\n", "`x`", "$(x)", "$X", "<x", "(", ")", "{", "}", "! ", ">x")


@given(
    st.lists(st.sampled_from(SIGNS), min_size=1), st.sampled_from(["pytest", "make test", "npm test"]), st.booleans()
)
def test_n27_no_sign_by_which_a_shell_decides_stands_in_a_check(signs, check, is_before):
    text = " ".join([*signs, check] if is_before else [check, *signs])
    assert isinstance(parse_checks(text), NotACheck) or text.strip() == check


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_n27_what_is_accepted_holds_nothing_that_the_shell_would_replace(text):
    checks = parse_checks(f"pytest {text}")
    if not isinstance(checks, NotACheck):
        for check in checks:
            unquoted = re.sub(r"'[^']*'", "", check.command.replace(" && ", " "))
            assert not set("$`;&|<>(){}\n~*?[!") & set(unquoted)
            assert shlex.split(check.command)[0] in {"pytest", "cd", "."}
