"""Detection of commands that check the code: tests, builds, linters. A label for the review, never a permission.

A check counts only if its exit code is the command's: only `&&` may follow it, or it is part of the last pipeline,
whose exit codes the shell reports. `pytest || true` checks nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import dropwhile, pairwise
from posixpath import join, normpath

from msgspec import Struct
from msgspec.structs import replace

from core.patterns import compile_lazily
from core.protocol.review import CheckKind

# Patterns of the first words of a command, after the launchers in _LAUNCHERS.
CHECK_PATTERNS: tuple[str, ...] = (
    "pytest", "py.test", "tox", "nox", "ruff check", "ruff format --check", "ruff", "mypy", "dmypy run", "pyright",
    "basedpyright", "pylint", "flake8", "black --check", "ty check", "python -m unittest", "python -m doctest",
    "python -m compileall", "python -m py_compile", "manage.py test", "*/manage.py test", "coverage run", "hatch test",
    "npm test", "npm t", "npm run test*", "npm run lint*", "npm run build*", "npm run check*", "npm run typecheck*",
    "npm run type-check*", "pnpm test", "pnpm run test*", "pnpm lint", "pnpm build", "pnpm run lint*",
    "pnpm run build*", "pnpm run check*", "pnpm run typecheck*", "yarn test*", "yarn lint", "yarn build",
    "yarn run test*", "yarn typecheck", "bun test", "bun run test*", "deno test", "deno check", "deno lint", "jest",
    "vitest", "mocha", "ava", "playwright test", "cypress run", "node --test", "node --check", "tsc", "vue-tsc",
    "eslint", "biome check", "biome ci", "prettier --check", "svelte-check", "next build", "vite build",
    "cargo test", "cargo nextest run", "cargo check", "cargo clippy", "cargo build", "go test", "go vet", "go build",
    "golangci-lint run", "staticcheck", "make", "make test*", "make check*", "make lint*", "make build", "make all",
    "make types", "just test*", "just check*", "just lint*", "ctest", "cmake --build", "ninja", "meson test",
    "bazel test", "bazel build", "buck2 test", "mvn test", "mvn verify", "mvn package", "./mvnw test", "./mvnw verify",
    "gradle test", "gradle check", "gradle build", "./gradlew test", "./gradlew check", "./gradlew build", "sbt test",
    "lein test", "dotnet test", "dotnet build", "rspec", "rake test", "rake spec", "rubocop", "rails test",
    "bin/rails test", "phpunit", "vendor/bin/phpunit", "phpstan", "composer test", "mix test", "mix compile",
    "swift test", "swift build", "zig build test", "zig build", "zig test", "stack test", "cabal test", "dune test",
    "dart test", "dart analyze", "flutter test", "flutter analyze", "shellcheck", "bats", "pre-commit run",
)  # fmt: skip
# The tools that check only the files in their arguments.
PER_FILE_TOOLS: tuple[str, ...] = (
    "ruff check", "ruff format --check", "mypy", "dmypy run", "pyright", "basedpyright", "pylint", "flake8",
    "black --check", "ty check", "python -m compileall", "python -m py_compile", "eslint", "biome check", "biome ci",
    "prettier --check", "node --check", "rubocop", "shellcheck",
)  # fmt: skip
# Test runners, and their exit codes for a run without any test.
_NO_TESTS_CODES: tuple[tuple[str, frozenset[int]], ...] = (
    ("pytest", frozenset({4, 5})),
    ("py.test", frozenset({4, 5})),
    ("coverage run -m pytest", frozenset({4, 5})),
    ("python -m unittest", frozenset({5})),
)
# The kind of check of a pattern, by its words, the strongest kind first. Other patterns are of the kind `check`.
_KINDS: tuple[tuple[CheckKind, str], ...] = (
    ("tests", "pytest py.test tox nox unittest doctest test t spec nextest verify coverage jest vitest mocha ava"),
    ("tests", "playwright cypress --test ctest rspec phpunit bats"),
    ("types", "mypy dmypy pyright basedpyright ty tsc vue-tsc svelte-check typecheck type-check types phpstan analyze"),
    ("types", "cargo deno"),  # `check`; `test`, `lint` and `build` of theirs are found by those words
    ("build", "build compile package --build ninja"),
    ("lint", "ruff pylint flake8 black eslint biome prettier lint clippy vet golangci-lint staticcheck rubocop"),
    ("lint", "shellcheck"),
    ("syntax", "compileall py_compile node"),
)
_LAUNCHERS = (
    ("env",), ("time",), ("nice",), ("uv", "run"), ("poetry", "run"), ("pdm", "run"),
    ("hatch", "run"), ("pipenv", "run"), ("rye", "run"), ("npx",), ("pnpm", "exec"), ("pnpm", "dlx"), ("bunx",),
    ("yarn", "exec"), ("bundle", "exec"), ("xvfb-run",),
)  # fmt: skip
_PYTHON = compile_lazily(r"(?:.*/)?python(?:\d(?:\.\d+)?)?")
_ASSIGNMENT = compile_lazily(r"[A-Za-z_]\w*=.*", re.DOTALL)
_NO_CHECK_OPTION = compile_lazily(
    r"--?(?:version|help|h|V|collect-only|co|dry-run|list|list-?tests|markers|fixtures|fixtures-per-test|setup-plan"
    r"|setup-only|no-run|exit-zero|passWithNoTests|if-present|showConfig|show-files|show-settings|just-print|recon"
    r"|ignore-errors|touch|question|DskipTests|Dmaven\.test\.skip)(?:=.*|\b)"
)
# Options of single programs with which they succeed without a check.
_EMPTYING_LETTERS: tuple[tuple[str, str], ...] = (
    ("make", "-[A-Za-z]*[nitqfWo][A-Za-z]*"), ("ninja", "-[A-Za-z]*[ntf].*"), ("go", "-(?:n|c|exec|list|toolexec)"),
    ("ctest", "-N"), ("tox", "-l"), ("nox", "-l"), ("gradle", "-[mx]"), ("./gradlew", "-[mx]"), ("just", "-[nl]"),
    ("mvn", "-[vh]"), ("vitest", "list|init|bench"),
)  # fmt: skip
# Commands before a check that may change its exit code.
_DECIDES_THE_END_TEXT = """
    trap eval source . set shopt alias unalias unset hash enable builtin exec exit return break continue function { }"""
_DECIDES_THE_END = frozenset(_DECIDES_THE_END_TEXT.split())
_EXPORTS = frozenset({"export", "declare", "typeset", "readonly", "local"})
_STEERING_VARIABLE = compile_lazily(
    r"(?:PATH|BASH_ENV|ENV|SHELL|SHELLOPTS|HOME|XDG_\w+|LD_\w+|PYTEST_\w+|PYTHON(?:HOME|STARTUP|INSPECT|OPTIMIZE)|NODE_\w+"
    r"|NPM_\w+|MAKE\w*|GOFLAGS|CARGO\w*|RUSTC\w*|JAVA_\w+|MAVEN_\w+|GRADLE_\w+|RUBY\w+|PERL\w+|TOX_\w+)\+?=.*",
    re.DOTALL,
)
_ACTIVATION = compile_lazily(r"(?:[\w.-]+/)*bin/activate")
_SHELL_STRICTNESS = compile_lazily(r"-[euxo]+|pipefail")  # `set -euo pipefail` only makes a command fail sooner
_SUBSHELL = compile_lazily(r"\s*\((?P<inner>[^()]*)\)\s*")  # its exit code is that of its content
_DURATION = compile_lazily(r"\d+(?:\.\d+)?[smhd]?")


class CheckResult(Struct, frozen=True):
    """Exit code of a command's checks, the checked files or directories, and the strongest kind of check.

    Paths are relative to the command's directory; () = unknown, so all of the project.
    """

    exit_code: int
    paths: tuple[str, ...] = ()
    kind: CheckKind = "check"


def detect_checks(
    command: str, exit_code: int, statuses: Sequence[int] = (), *, extra: Sequence[str] = ()
) -> CheckResult | None:
    """Return the result of the checks in `command`, or None if it holds none with a known exit code.

    `statuses`: exit codes of the last pipeline; `extra`: more patterns, from the user's configuration.
    """
    match = _SUBSHELL.fullmatch(command)
    pipelines = _split_pipelines(match["inner"] if match else command)
    codes: list[int] = []
    kinds: list[CheckKind] = []
    scopes: list[tuple[str, ...]] = []
    directory = "."
    for number, (pipeline, mark) in enumerate(pipelines):
        if any(_may_decide_the_end(words, mark) for words in pipeline):
            return None
        if mark == "||":
            continue  # it is unknown whether it ran
        if len(pipeline) == 1 and len(pipeline[0]) == 2 and pipeline[0][0] == "cd":
            directory = join(directory, pipeline[0][1])
        code = _resolve_exit_code(pipeline, exit_code, statuses, is_last=number == len(pipelines) - 1)
        if code is None or any(after != "&&" for _, after in pipelines[number + 1 :]):
            continue
        for part in pipeline:
            if is_check(part, extra) and not _has_run_nothing(part, code):
                codes.append(code)
                kinds.append(_find_kind(part, extra))
                scopes.append(tuple(normpath(join(directory, target)) for target in _list_targets(part)))
    if not codes:
        return None
    paths = () if () in scopes else tuple(dict.fromkeys(path for scope in scopes for path in scope))
    result = CheckResult(next((code for code in codes if code), 0), paths)
    return next((replace(result, kind=kind) for kind, _ in _KINDS if kind in kinds), result)


def _may_decide_the_end(words: Sequence[str], mark: str) -> bool:
    """True if a command can end the whole command line, or change the meaning of later ones: traps, functions,
    variables.

    `cd x || exit` is harmless: the exit code remains that of the failed command.
    """
    names = list(dropwhile(_ASSIGNMENT.fullmatch, words))
    has_subshell = any(set(word) <= {"(", ")"} for word in words if word)  # whose exit code may not be the command's
    if has_subshell or any(_STEERING_VARIABLE.fullmatch(word) for word in words[: len(words) - len(names)]):
        return True
    if not names or (names == ["exit"] and mark == "||"):
        return False
    match names[0]:
        case name if name in _EXPORTS:
            return any(word.startswith("-f") or _STEERING_VARIABLE.fullmatch(word) for word in names[1:])
        case "source" | ".":
            return len(names) != 2 or not _ACTIVATION.fullmatch(names[1])
        case "set":
            return not all(_SHELL_STRICTNESS.fullmatch(word) for word in names[1:])
        case name:
            return name in _DECIDES_THE_END or any(word.startswith("(") for word in names[1:])


def _resolve_exit_code(
    pipeline: Sequence[Sequence[str]], exit_code: int, statuses: Sequence[int], *, is_last: bool
) -> int | None:
    if len(pipeline) == 1:
        return exit_code
    if is_last and len(statuses) == len(pipeline):
        return exit_code or next((code for code in statuses if code), 0)
    return None


def _list_targets(words: Sequence[str]) -> list[str]:
    words = _strip_launchers(list(words))
    text = " ".join(words)
    tool = next((tool_name for tool_name in PER_FILE_TOOLS if _is_match(text, tool_name)), None)
    return [word for word in words[tool.count(" ") + 1 :] if not word.startswith("-")] if tool else []


def _split_pipelines(command: str) -> list[tuple[list[list[str]], str]]:
    """Split a command into pipelines, as the words of their parts and the operator before them."""
    pipelines: list[tuple[list[list[str]], str]] = []
    pipeline: list[list[str]] = []
    words: list[str] = []
    before = ""
    for token in _tokenize(command):
        if token in {"|", "|&"}:
            pipeline.append(words)
            words = []
        elif token in {"&&", "||", ";", "&", "\n"}:
            if words or pipeline:
                pipelines.append(([*pipeline, words], before))
            pipeline, words = [], []
            before = token if token != "\n" or not pipelines else ";"
        else:
            words.append(token)
    if words or pipeline:
        pipelines.append(([*pipeline, words], before))
    elif before == "&":  # the last one runs in the background, and its exit code is lost
        pipelines.append(([], before))
    return pipelines


def _tokenize(command: str) -> Iterator[str]:
    """Yield words and operators without redirections and here-documents; none for a command that can't be parsed."""
    ends: list[str] = []
    for number, line in enumerate(command.replace("\\\n", " ").split("\n")):
        if ends:
            ends = ends[1:] if line.lstrip("\t") == ends[0] else ends
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        try:
            tokens = list(lexer)
        except ValueError:
            return
        ends = [after.lstrip("-") for mark, after in pairwise(tokens) if mark == "<<"]
        if number and tokens:
            yield "\n"
        yield from _drop_redirections(tokens)


def _drop_redirections(tokens: Sequence[str]) -> Iterator[str]:
    skips = False
    for index, token in enumerate(tokens):
        if skips:
            skips = False
        elif token[:1] in {"<", ">"} or token in {"&>", "&>>", ">&"}:
            skips = True
        elif token.isdigit() and index + 1 < len(tokens) and tokens[index + 1][:1] in {"<", ">"}:
            continue
        else:
            yield token


def is_check(words: Sequence[str], extra: Sequence[str]) -> bool:
    """Return True if these are the words of a command that checks; `extra`: more patterns."""
    return bool(_find_pattern(words, extra))


def find_configured(words: Sequence[str], patterns: Sequence[str]) -> str:
    """Return the user's pattern that these words match literally (`python tests/run.py`), "" = none."""
    command_text = " ".join(dropwhile(_ASSIGNMENT.fullmatch, words))
    return next((pattern for pattern in patterns if _is_match(command_text, pattern)), "")


def _find_pattern(words: Sequence[str], extra: Sequence[str]) -> str:
    """Return the pattern that these words match, "" = none."""
    if configured_pattern := find_configured(words, extra):
        return configured_pattern
    words = _strip_launchers(list(words))
    if not words or _has_emptying_option(words):
        return ""
    words = _drop_place(words)
    text = " ".join(words)
    plain = " ".join(word for word in words if not word.startswith("-"))  # `mvn -q test` is `mvn test`
    patterns = (*CHECK_PATTERNS, *extra)
    return next(
        (pattern for pattern in patterns if any(_is_match(candidate, pattern) for candidate in (text, plain))), ""
    )


def _has_emptying_option(words: Sequence[str]) -> bool:
    letters = next((pattern for program, pattern in _EMPTYING_LETTERS if words[0] == program), "(?!)")
    return any(_NO_CHECK_OPTION.fullmatch(word) or re.fullmatch(letters, word) for word in words[1:])


def _drop_place(words: list[str]) -> list[str]:
    """Drop the directory and the number of jobs of make: `make -C src -j 4 test` is `make test`."""
    while (
        words[0] in {"make", "ninja"}
        and len(words) > 2
        and (words[1] == "-C" or (words[1] == "-j" and words[2].isdigit()))
    ):
        words = [words[0], *words[3:]]
    return words


def _find_kind(words: Sequence[str], extra: Sequence[str]) -> CheckKind:
    """Return the kind of a command that is a check."""
    pattern_words = set(_find_pattern(words, extra).replace("*", "").split())
    if pattern_words & {"cargo", "deno"} and "check" not in pattern_words:
        pattern_words -= {"cargo", "deno"}
    return next((kind for kind, names in _KINDS if not pattern_words.isdisjoint(names.split())), "check")


def _is_match(text: str, pattern: str) -> bool:
    """True if `text` begins with the pattern's words; a bare `make` or `ninja` matches only without a target."""
    if pattern.startswith("make") and any(_ASSIGNMENT.fullmatch(word) for word in text.split(" ")[1:]):
        return False  # `make SHELL=true test` runs the program in the variable
    if pattern in {"make", "ninja"}:
        return text == pattern or re.fullmatch(rf"{pattern}(?: -\S+)+", text) is not None
    count = pattern.count(" ") + 1
    return fnmatchcase(" ".join(text.split(" ")[:count]), pattern)


def _has_run_nothing(words: Sequence[str], code: int) -> bool:
    """True if a test runner's exit code means that it ran no test at all (or was called incorrectly)."""
    text = " ".join(_strip_launchers(list(words)))
    nothing = next((codes for runner, codes in _NO_TESTS_CODES if _is_match(text, runner)), frozenset())
    return code in nothing


def _strip_launchers(words: list[str]) -> list[str]:
    while words:
        if _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
        elif words[0] == "timeout":
            rest = [index for index, word in enumerate(words) if index and _DURATION.fullmatch(word)]
            words = words[rest[0] + 1 :] if rest else []
        elif (
            starter := next((launcher for launcher in _LAUNCHERS if tuple(words[: len(launcher)]) == launcher), None)
        ) is not None:
            words = words[len(starter) :]
            while words and words[0].startswith("-"):
                words = words[1:]
        elif _PYTHON.fullmatch(words[0]):
            return _strip_python(words)
        else:
            return [words[0].rpartition("/")[2] if "bin/" in words[0] else words[0], *words[1:]]
    return []


def _strip_python(words: list[str]) -> list[str]:
    """Strip the interpreter: `python -m pytest` is pytest; names of other modules and scripts remain."""
    rest = words[1:]
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        rest = rest[1:]
    if rest[:1] != ["-m"]:
        return rest
    standard_modules = {"unittest", "doctest", "compileall", "py_compile"}
    return ["python", *rest] if len(rest) > 1 and rest[1] in standard_modules else rest[1:]
