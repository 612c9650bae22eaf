"""Parser of commands that are checks and nothing else, so that the exit code of a run by the program is evidence.

A command counts if its exit code is known to be that of the tools that it names: plain words, `cd` into the project
before them, readers of their output behind them (which are not run again). Whatever could decide the exit code (traps,
functions, `||`, substitution, variables, options that empty or forgive a run, programs from elsewhere) is refused with
the reason. The unknown is refused, too: a forged check costs more than a repeated question.

Options are allowed by tables for each program: others can empty a run (`--collect-only`), forgive it (`make -i`,
`--exit-zero`) or have something else decide it (`-c`, `-p`, `--config`). An option that ends in "=" takes a value,
which may also be the next word.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence, Set
from posixpath import join, normpath, relpath
from typing import Final

from msgspec import Struct

from core.patterns import compile_lazily
from core.shell.check_detection import CheckResult, detect_checks, find_configured, is_check

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
# Options that select the tests which run: mentioned with the result.
_NARROWING_TEXT: Final = """
    --lf --last-failed -run --exact --ignored --test --bin -t --testNamePattern --grep -g --testPathPattern
    --testPathPatterns --tests -Dtest -pl --filter --testsuite -e --only --stale -R -L --rerun-failed -s --session
    --sessions -p --package --lib --doc --project --tag"""
NARROWING: Final = frozenset(_NARROWING_TEXT.split())
# Options that exclude tests, perhaps the failing ones.
_EXCLUDING_TEXT: Final = """
    -k -m --deselect --ignore --ignore-glob --exclude-tag -skip --skip --exclude -short -E -LE --sw --stepwise"""
EXCLUDING: Final = frozenset(_EXCLUDING_TEXT.split())
# The first words of a check, and the table of its options.
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
    """Return the allowed options of a check (`words` without launchers); "=" marks those with a value."""
    if words[:2] == ["python", "-m"]:
        name = "unittest" if words[2:3] == ["unittest"] else "plain"
    elif words[0].endswith("manage.py"):
        name = "django"
    elif words[:2] == ["coverage", "run"]:
        name = "pytest"
    else:
        name = next((table for programs, table in _FAMILIES if words[0] in programs.split()), "plain")
    return frozenset(f"{_COMMON_TEXT} {_PARTS[name]}".split())


class SingleCheck(Struct, frozen=True, kw_only=True):
    """A check that can be run alone, by `command`, from the project's root. `result`: its result for exit code 0.
    `narrowed_by`: the words that select tests, () = none."""

    command: str
    result: CheckResult
    narrowed_by: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the command, with a remark if it runs only a part of the tests."""
        return f"{self.command} (a part of the tests)" if self.narrowed_by else self.command


class NotACheck(Struct, frozen=True):
    """A command that proves nothing. `reason`: the end of a sentence that begins with the command."""

    reason: str

    def explain(self, command: str) -> str:
        """Return a sentence that says why this command is not run again."""
        return f"`{' '.join(command.split())}` is not run again: it {self.reason}."


_STRICTNESS: Final = compile_lazily(r"set (?:-[euxo]+|pipefail|\s)+(?:;|&&|\n)\s*")  # only makes a command fail earlier
_REDIRECTIONS: Final = frozenset({">", ">&", "&>", ">>"})
_READERS: Final = frozenset({"tail", "head", "cat", "grep", "tee", "less", "more"})
_PATTERN_FILE: Final = compile_lazily(r"--file|-[A-Za-z]*f")
_LONE: Final = compile_lazily(r"[$`\\{}!]|\(|\)|<|^~|(?:^|\s)[*?\[]")
_VARIABLES: Final = compile_lazily(
    r"(?:CI|NO_COLOR|FORCE_COLOR|PY_COLORS|CLICOLOR|CLICOLOR_FORCE|PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED|PYTHONUTF8"
    r"|PYTHONHASHSEED|PYTHONWARNINGS|RUST_BACKTRACE|CARGO_TERM_COLOR|TERM|TZ|LANG|LC_ALL|COLUMNS|VERBOSE|V|CGO_ENABLED)"
    r"=[\w.:,/@+-]*|PYTHONPATH=(?:\.|src|lib|\./src|\./lib)(?::(?:\.|src|lib))*|NODE_ENV=test|RAILS_ENV=test|MIX_ENV=test"
)
_ASSIGNMENT: Final = compile_lazily(r"\w+\+?=.*", re.DOTALL)
_ACTIVATION: Final = compile_lazily(r"(?:\./)?\.?v?env[\w-]*/bin/activate")
_DURATION: Final = compile_lazily(r"\d+(?:\.\d+)?[smhd]?")
_PYTHON: Final = compile_lazily(r"(?:(?:\./)?\.?v?env\w*/bin/|/usr/bin/|/usr/local/bin/)?python(?:\d(?:\.\d+)?)?")
_PYTHON_OPTIONS: Final = compile_lazily(r"-[BEIPsubdqv]+|-[WX]\S+")
_RUN_OPTIONS: Final = {  # flags of launchers; "=" marks those with a value
    "uv run": """--frozen --locked --no-sync --active --all-extras --all-groups -q --quiet --dev --extra= --group= -p=
        --python=""",
    "poetry run": "-q",
    "pdm run": "",
    "pipenv run": "",
    "rye run": "",
    "hatch run": "",
    "npx": "--no-install --no -y --yes",
    "pnpm exec": "",
    "yarn exec": "",
    "bunx": "",
    "bundle exec": "",
    "xvfb-run": "-a --auto-servernum",
    "time": "-p",
    "nice": "-n=",
    "env": "",
}
_BIN: Final = compile_lazily(
    r"(?:\./)?(?:\.?v?env\w*/bin|node_modules/\.bin|vendor/bin|bin)/(?=[^/]+$)|/(?:usr/(?:local/)?)?bin/(?=[^/]+$)"
)


def parse_single_check(command: str, *, patterns: Sequence[str] = (), workspace: str = "") -> SingleCheck | NotACheck:
    """Parse a command that is one check. `patterns`: the user's own check commands; `workspace`: the project's root, to
    which `cd` may lead by its absolute path."""
    checks = parse_checks(command, patterns=patterns, workspace=workspace)
    if isinstance(checks, NotACheck):
        return checks
    return checks[0] if len(checks) == 1 else NotACheck("is more than one check")


def parse_checks(
    command: str, *, patterns: Sequence[str] = (), workspace: str = ""
) -> tuple[SingleCheck, ...] | NotACheck:
    """Parse a command that consists of checks, to be run separately: `cd x && ruff check . && pytest` is two.

    A command that is listed in the user's configuration is taken literally.
    """
    if command in patterns:
        return (SingleCheck(command=command, result=detect_checks(command, 0, extra=patterns) or CheckResult(0)),)
    try:
        parts = list(_split_chain(_STRICTNESS.sub("", command.strip(), count=1)))
    except ValueError as error:
        return NotACheck(str(error))
    checks: list[SingleCheck] = []
    directory, prefix = ".", ""
    for words in parts:
        try:
            if words[:1] == ["cd"] and not checks:
                before = directory
                directory = _change_directory(directory, words, workspace)
                target = relpath(directory, before)
                prefix += f"cd {shlex.quote(target)} && " if target != "." else ""
            elif words[0] in {"source", "."} and _ACTIVATION.fullmatch("".join(words[1:])) and not checks:
                prefix += f". {words[1]} && "
            else:
                checks.append(_build_check(words, prefix, patterns))
        except ValueError as error:
            return NotACheck(str(error))
    return tuple(checks) if checks else NotACheck("runs no check")


def parse_check(command: str, patterns: Sequence[str] = (), workspace: str = "") -> CheckResult | None:
    """Return the result of a command that consists only of checks; None = it holds other commands."""
    checks = parse_checks(command, patterns=patterns, workspace=workspace)
    if isinstance(checks, NotACheck):
        return None
    return detect_checks(command, 0, extra=patterns) or checks[0].result


def _change_directory(directory: str, words: list[str], workspace: str) -> str:
    if len(words) != 2 or words[1].startswith("-") or (words[1].startswith("/") and not workspace):
        raise ValueError("changes the directory in a way that can't be followed")
    is_full = words[1].startswith("/")
    target = relpath(words[1], workspace) if is_full else normpath(join(directory, words[1]))
    if target.split("/")[0] == "..":
        raise ValueError("leaves the project")
    return target


def _split_chain(command: str) -> Iterator[list[str]]:
    """Yield the words of the commands that `&&` joins, without readers and harmless redirections. Raises ValueError."""
    words: list[str] = []
    readers: list[list[str]] = []
    for token in [*_list_tokens(command), "&&"]:
        if token == "|":
            readers.append([])
        elif token == "&&":
            if not words:
                raise ValueError("can't be parsed")
            for reader in readers:
                _check_reader(reader)
            yield words
            words, readers = [], []
        else:
            (readers[-1] if readers else words).append(_read_word(token))


def _check_reader(words: list[str]) -> None:
    """Raise ValueError for a command behind a pipe that does more than print its input: it could print a file
    instead."""
    if not words or words[0] not in _READERS:
        raise ValueError("pipes its output to another program")
    operands = [word for word in words[1:] if not word.startswith("-") and not word.isdigit()]
    max_operands = {"grep": 1, "tee": len(operands)}.get(words[0], 0)
    if len(operands) > max_operands or (words[0] == "grep" and any(_PATTERN_FILE.match(word) for word in words[1:])):
        raise ValueError("prints another file beside its output")


def _list_tokens(command: str) -> Iterator[str]:
    """Yield words, `|` and `&&` literally. Raises ValueError for all other shell syntax."""
    line = command.strip().replace("\\\n", " ")
    if any(character != "\t" and unicodedata.category(character) == "Cc" for character in line):
        raise ValueError("is more than one line, or holds control characters")
    lexer = shlex.shlex(line, posix=False, punctuation_chars="|&;<>()")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        tokens = list(lexer)
    except ValueError:
        raise ValueError("can't be parsed") from None
    is_target = False
    for token, following in zip(tokens, [*tokens[1:], ""], strict=False):
        if is_target and token not in {"/dev/null", "1", "2"}:
            raise ValueError("writes its output to a file")
        if is_target or token in _REDIRECTIONS or (token.isdigit() and following in _REDIRECTIONS):
            is_target = token in _REDIRECTIONS
        elif set(token) <= set("|&;<>()") and token not in {"|", "&&"}:
            raise ValueError(f"has `{token}`, so something else may decide its result")
        else:
            yield token


def _read_word(token: str) -> str:
    """Return a word as the shell would. Raises ValueError for one that the shell would expand."""
    bare = re.sub(r"'[^']*'", "", token)
    if _LONE.search(bare.replace('"', "")) or (bare != token and _ASSIGNMENT.match(token)):
        raise ValueError("has words that the shell expands")
    try:
        pieces = shlex.split(token)
    except ValueError:
        raise ValueError("can't be parsed") from None
    return pieces[0] if pieces else ""


def _build_check(words: list[str], prefix: str, patterns: Sequence[str]) -> SingleCheck:
    """Build a check from its words. Raises ValueError with the reason if they are no check, or its exit code is
    unsafe."""
    text = shlex.join(words)
    result = detect_checks(f"{prefix}{text}", 0, extra=patterns)
    if result is None:
        raise ValueError("is not a known check")
    is_configured = bool(find_configured(words, patterns)) and not _ASSIGNMENT.fullmatch(words[0])
    narrowed_by: tuple[str, ...] = ()
    if not is_configured:
        bare = _strip_launchers(words)
        if not is_check(bare, ()):
            raise ValueError("is not a known check")
        narrowed_by = tuple(_list_narrowing(bare))
    return SingleCheck(command=f"{prefix}{text}", result=result, narrowed_by=narrowed_by)


def _strip_launchers(words: list[str]) -> list[str]:
    """Return the words of the check itself. Raises ValueError if the words before it may change its exit code."""
    while words:
        if _ASSIGNMENT.fullmatch(words[0]):
            if not _VARIABLES.fullmatch(words[0]):
                raise ValueError(f"sets {words[0].partition('=')[0].rstrip('+')}, which can decide its result")
            words = words[1:]
        elif words[0] == "timeout" and len(words) > 2 and _DURATION.fullmatch(words[1]):
            words = words[2:]
        elif (
            name := next(
                (launcher for launcher in _RUN_OPTIONS if words[: launcher.count(" ") + 1] == launcher.split()), None
            )
        ) is not None:
            words = _drop_options(words[name.count(" ") + 1 :], name)
        elif _PYTHON.fullmatch(words[0]):
            return _strip_python(words[1:])
        else:
            return [_strip_directory(words[0]), *words[1:]]
    raise ValueError("is not a known check")


def _drop_options(words: list[str], launcher: str) -> list[str]:
    flags = _RUN_OPTIONS[launcher].split()
    while words and words[0].startswith("-"):
        name = words[0].partition("=")[0]
        if f"{name}=" in flags:
            words = words[1:] if "=" in words[0] else words[2:]
        elif words[0] in flags:
            words = words[1:]
        else:
            raise ValueError(f"passes `{launcher}` the option {name}, which may change the check")
    return words


def _strip_python(words: list[str]) -> list[str]:
    while words and words[0] != "-m" and words[0].startswith("-"):
        if not _PYTHON_OPTIONS.fullmatch(words[0]):
            raise ValueError(f"passes Python the option {words[0]}, which may change the check")
        words = words[1:]
    if words[:1] != ["-m"]:
        return words
    if words[1:2] == ["coverage"]:
        return words[1:]
    return (
        ["python", *words]
        if words[1:2] and words[1] in {"unittest", "doctest", "compileall", "py_compile"}
        else words[1:]
    )


def _strip_directory(program: str) -> str:
    name = _BIN.sub("", program)
    if name.startswith(("/", "~")) or ".." in name.split("/"):
        raise ValueError("starts a program from outside the project")
    return name


def _list_narrowing(words: list[str]) -> Iterator[str]:
    """Yield the words that select a part of the tests. Raises ValueError for an option that is not allowed."""
    options = get_options(words)
    value_of = ""
    arguments = _drop_program(words)
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if value_of or not word.startswith("-"):
            _check_value(words[0], value_of, word)
            value_of = ""
        elif word != "--":
            name, value, is_next = _read_option(word, options)
            value_of = name if is_next else ""
            if not is_next:
                _check_value(words[0], name, value)
            if name in EXCLUDING:
                raise ValueError(f"skips tests with `{f'{word} {following}' if is_next else word}`")
            if name in NARROWING and (words[0], name) != ("node", "--test") and not following.startswith("no:"):
                yield f"{word} {following}" if is_next else word


def _drop_program(words: list[str]) -> list[str]:
    if words[:3] == ["coverage", "run", "-m"]:
        return words[4:]
    return words[3:] if words[:2] == ["python", "-m"] else words[1:]


def _read_option(word: str, options: Set[str]) -> tuple[str, str, bool]:
    """Return an option's name, its value, and whether the value is the next word. Raises ValueError for unknown
    options."""
    name, equals, value = word.partition("=")
    if word in options:
        return word, "", False
    if f"{name}=" in options:
        return name, value, not equals
    if f"{word[:2]}=" in options and word[1] != "-":
        return word[:2], word[2:], False
    if len(word) > 2 and word[1] != "-" and all(f"-{letter}" in options for letter in word[1:]):
        return word, "", False  # `-xvs` is `-x -v -s`
    raise ValueError(f"has the option {name}, which may make the check incomplete")


def _check_value(program: str, option: str, value: str) -> None:
    """Raise ValueError for a value, or a target (`option` ""), that may change the exit code."""
    if program in {"pytest", "py.test"} and option == "-p" and not value.startswith("no:"):
        raise ValueError("loads a plugin with `-p`, which can decide its result")
    if program == "make" and not option and "=" in value:
        raise ValueError(f"sets {value.partition('=')[0]}, which can decide its result")
    if not option and value.startswith("@"):
        raise ValueError("reads its options from a file")
    path = value.partition("::")[0]
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        raise ValueError("uses a path outside the project")
