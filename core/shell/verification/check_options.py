"""The options that leave a check whole, by program: only with these is the exit code of a run evidence.

The tables allow; what they do not name is refused, since options can empty a run (`--collect-only`), forgive it
(`make -i`, `--exit-zero`) or have something else decide it (`-c`, `-p`, `--config`). An option that ends in "=" takes a
value, which may also be the next word.
"""

from __future__ import annotations

from typing import Final

_COMMON_TEXT: Final = "-q -qq -v -vv -vvv --quiet --verbose --silent --color= --no-color --colors --no-colors"
_PARTS: Final[dict[str, str]] = {
    "pytest": """-x -s -l -ra -rA -rf -rs -rfE -rsx --exitfirst --maxfail= --tb= --durations= --durations-min= --lf
        --ff --failed-first --last-failed --nf --sw --stepwise -n= --numprocesses= --dist= --maxprocesses=
        --timeout= --cov --cov= --cov-report= --cov-branch --cov-append --no-cov --cov-fail-under= --strict
        --strict-markers --strict-config --showlocals --no-header --no-summary --capture= --full-trace
        --junitxml= --junit-xml= --doctest-modules --disable-warnings --disable-pytest-warnings
        --show-capture= --runslow --reruns-delay= -k= -m= --deselect= --ignore= --ignore-glob=
        --no-showlocals --basetemp= --cache-clear --forked --random-order --asyncio-mode= --import-mode=
        -vvvv -p= --create-db --nomigrations --reuse-db --no-migrations --pdb-trace-off""",
    "unittest": """-f --failfast -b --buffer -c --catch --locals -k= -s= -t= -p= --start-directory= --durations=""",
    "django": """--failfast --parallel --parallel= --keepdb --noinput --no-input --settings= --tag= --exclude-tag=
        --shuffle --timing --debug-mode --reverse --buffer -v= --verbosity= -k=""",
    "tox": "-e= -r --recreate -p -p= --parallel= --parallel -f=",
    "nox": """-s= -e= --session= --sessions= -r -R --reuse-existing-virtualenvs --error-on-missing-interpreters
        -t= -p=""",
    "make": """-s -j -j= --jobs= --jobs -B --always-make -w --no-print-directory -O --output-sync -l= -C=
        --directory= -r -R""",
    "just": "--quiet --no-dotenv",
    "cargo": """--all --workspace --lib --bins --tests --doc --examples --benches --all-targets --all-features
        --no-default-features --release --locked --offline --frozen --no-fail-fast --features= -F= -p=
        --package= -j= --jobs= --test= --bin= --exclude= --profile= --message-format= --nocapture
        --test-threads= --show-output --include-ignored --skip= --exact --color= --ignored --target= -r -D=
        --retries= --no-capture -E=""",
    "go": """-race -count= -timeout= -cover -covermode= -coverprofile= -coverpkg= -p= -parallel= -failfast -tags=
        -json -shuffle= -short -run= -skip= -v -trimpath -mod=""",
    "javascript": """--ci --check --coverage --coverage=
        --runInBand -i --maxWorkers= -w= --bail --bail= -b --run --watch=false
        --watch=0 --watchAll=false --no-watch --forceExit --detectOpenHandles --silent --reporter=
        --reporters= --testTimeout= --timeout= -t= --testNamePattern= --grep= -g= --testPathPattern=
        --testPathPatterns= --single-run --exit --parallel --jobs= --project= --browser= --workers=
        --noStackTrace --verbose=true --ui=false --no-file-parallelism --pool= --test-reporter=
        --test-concurrency= --test-timeout= --experimental-test-coverage --headless --noEmit --test
        --max-warnings=0 --max-warnings= --pretty --skipLibCheck --strict --ext= --cache --no-cache
        --allow-all -A""",
    "typescript": "--noEmit --pretty --skipLibCheck --strict --incremental= -p= --project= -b --build",
    "jvm": """-B --batch-mode -ntp --no-transfer-progress -U -o --offline -pl= -am -T= -e -X --no-daemon
        --stacktrace --info --warning-mode= --console= --rerun-tasks --continue --parallel --tests= -Dtest=
        --build-cache --no-build-cache -fae""",
    "python": """--strict --pretty --no-incremental --show-error-codes --ignore-missing-imports --warn-unused-ignores
        --check --check-only --diff --output-format= --no-cache --no-fix --statistics --count --show-source
        --line-length= --max-line-length= --python-version= --show-column-numbers --no-error-summary --jobs=
        -j= --all-files -a""",
    "dotnet": """-c= --configuration= --no-restore --no-build --nologo --verbosity= -v= --filter= --framework= -f=
        --logger=""",
    "ruby": "--format= -f= --fail-fast --order= --seed= --profile -e= --parallel --backtrace -b",
    "php": """--testsuite= --filter= --stop-on-failure --colors= --testdox --no-progress --memory-limit= --level=""",
    "beam": """--trace --max-failures= --seed= --only= --exclude= --cover --stale --warnings-as-errors --slowest=""",
    "cmake": """--test-dir= --build=
        --output-on-failure -j -j= --parallel= --parallel -R= -E= -L= -LE= --stop-on-failure
        --timeout= -C= --build-config= -V -VV --target= --config= --rerun-failed --repeat= --schedule-random""",
    "plain": "-j -j= --all --all-features --jobs= --recursive -r",
}  # fmt: skip
# Options that choose the tests which run: said with the result.
_NARROWING_TEXT: Final = """
    --lf --last-failed -run --exact --ignored --test --bin -t --testNamePattern --grep -g --testPathPattern
    --testPathPatterns --tests -Dtest -pl --filter --testsuite -e --only --stale -R -L --rerun-failed -s --session
    --sessions -p --package --lib --doc --project --tag"""
NARROWING: Final = frozenset(_NARROWING_TEXT.split())
# Options that choose the tests which do not run: whoever wrote them may have left out the ones that fail.
_EXCLUDING_TEXT: Final = """
    -k -m --deselect --ignore --ignore-glob --exclude-tag -skip --skip --exclude -short -E -LE --sw --stepwise"""
EXCLUDING: Final = frozenset(_EXCLUDING_TEXT.split())
# The first words of a check, and the table of the options it takes.
_FAMILIES: Final = (
    ("pytest py.test", "pytest"),
    ("tox", "tox"),
    ("nox", "nox"),
    ("make", "make"),
    ("just", "just"),
    ("cargo", "cargo"),
    ("go", "go"),
    ("npm pnpm yarn bun deno jest vitest mocha ava playwright cypress node eslint biome prettier", "javascript"),
    ("svelte-check next vite", "javascript"),
    ("tsc vue-tsc", "typescript"),
    ("mvn gradle mvnw gradlew ./mvnw ./gradlew sbt lein", "jvm"),
    ("ruff mypy dmypy pyright basedpyright pylint flake8 black ty pre-commit hatch", "python"),
    ("dotnet", "dotnet"),
    ("rspec rake rubocop rails bin/rails", "ruby"),
    ("phpunit vendor/bin/phpunit phpstan composer", "php"),
    ("mix", "beam"),
    ("ctest cmake ninja meson", "cmake"),
)


def get_options(words: list[str]) -> frozenset[str]:
    """Return the options that the check of these words (its launchers stripped) may have; "=" ends one with a value."""
    if words[:2] == ["python", "-m"]:
        name = "unittest" if words[2:3] == ["unittest"] else "plain"
    elif words[0].endswith("manage.py"):
        name = "django"
    elif words[:2] == ["coverage", "run"]:
        name = "pytest"
    else:
        name = next((table for programs, table in _FAMILIES if words[0] in programs.split()), "plain")
    return frozenset(f"{_COMMON_TEXT} {_PARTS[name]}".split())
