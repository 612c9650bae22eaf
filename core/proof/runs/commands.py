"""The command of a check, made smaller: only some tests, only until the first failure.

What is not plainly a command of a runner that is known here is run as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from core.patterns import compile_lazily
from core.proof.runs.records import RECORDER
from core.records import decode_json
from core.shell.verification.single_check import get_options

Runner = Literal["pytest", "unittest", "node", "go", "jest", "vitest", "other"]

_PYTHON_PATH: Final = compile_lazily(r"(?<![\w])PYTHONPATH=")
_PYTEST: Final = compile_lazily(r"(?:\S*/)?py\.?test")
_SIGNS: Final = ("&&", ";", "|")  # of a shell, between commands
_NODE: Final = compile_lazily(r"(?:\S*/)?node(?:js)?")
_NODE_VALUES_TEXT: Final = """
    -r --require --import --loader --experimental-loader --env-file --test-name-pattern --test-concurrency -C
    --conditions --test-reporter --test-reporter-destination --test-timeout"""
_NODE_VALUES: Final = frozenset(_NODE_VALUES_TEXT.split())
_PATTERN: Final = compile_lazily(r"[\w./:*?\[\]{},-]+")
_PYTHON: Final = compile_lazily(r"(?:\S*/)?python[\d.]*")
_ASSIGNMENT: Final = compile_lazily(r"\w+=.*", re.DOTALL)
_WITH_VALUE: Final = compile_lazily(r"-[kmnpcWoER]|--\w[\w-]*")
_LAUNCHERS: Final = (
    ("uv", "run"),
    ("poetry", "run"),
    ("pdm", "run"),
    ("pipenv", "run"),
    ("hatch", "run"),
    ("coverage", "run", "-m"),
    ("npx",),
    ("pnpm", "exec"),
    ("yarn", "exec"),
    ("bunx",),
)
_GO_TEST: Final = compile_lazily(r"\bgo test\b")
_REPORTING: Final = ("jest", "vitest")
_SCRIPT: Final = compile_lazily(r"(?P<manager>npm|pnpm|yarn) (?:run )?(?P<name>[\w:.-]+)")


class CheckCommand(Struct, frozen=True):
    """A check as words: `head` starts the runner, `options` are its own, `paths` what it is told to run."""

    text: str
    runner: Runner
    head: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def records_tests(self) -> bool:
        """True if a run by this runner records its tests, and leaves some out."""
        return self.runner in ("pytest", "unittest")

    @property
    def takes_files(self) -> bool:
        """True if it can run only some files of tests."""
        return self.runner in ("pytest", "node")

    def build(self, files: Collection[str] = (), *, is_brief: bool = False, report: str = "") -> str:
        """Return the command for these files alone, () = for all. `is_brief`: it ends with the first failure; `report`:
        options with which a runner writes a report of lines."""
        if report:
            is_go = self.runner == "go"
            return _GO_TEST.sub(lambda _: f"go test {report}", self.text, count=1) if is_go else f"{self.text} {report}"
        if self.runner == "node":
            return " ".join([_join([*self.head, *self.options]), *(map(_quote, sorted(files) or self.paths))])
        if self.runner == "unittest" and is_brief and self.head:
            return with_recorder(_join([*self.head, "--failfast", *self.options]))
        if self.runner != "pytest":
            return with_recorder(self.text)
        words = [*self.head, *self.options, *(["-x"] if is_brief else [])]
        return with_recorder(" ".join([_join(words), *(map(_quote, sorted(files) or self.paths))]))


def parse_command(text: str) -> CheckCommand:
    """Parse a check. It has been found to be one and nothing else (`core.shell.verification.single_check`)."""
    try:
        words = shlex.split(text)
    except ValueError:
        return CheckCommand(text, "other")
    start = _skip_launchers(words)
    if _PYTEST.fullmatch(" ".join(words[start : start + 1])):
        return _parse_pytest(text, words, start + 1)
    if _PYTHON.fullmatch(" ".join(words[start : start + 1])):
        module = words[start + 1 : start + 3]
        if module[:1] == ["-m"] and module[1:] and _PYTEST.fullmatch(module[1]):
            return _parse_pytest(text, words, start + 3)
        if module == ["-m", "unittest"]:
            is_plain = not any(sign in text for sign in _SIGNS)
            return CheckCommand(
                text, "unittest", tuple(words[: start + 3]) if is_plain else (), tuple(words[start + 3 :])
            )
    if _NODE.fullmatch(" ".join(words[start : start + 1])) and "--test" in words:
        return _parse_node(text, words, start + 1)
    return CheckCommand(text, _find_reporting_runner(text, words[start:]))


def _find_reporting_runner(text: str, words: Sequence[str]) -> Runner:
    """Return the runner among those that write a report, to whose command options can be added."""
    if any(sign in text for sign in (*_SIGNS, "--watch")):
        return "other"
    if list(words[:2]) == ["go", "test"]:
        return "go"
    name = words[0].rpartition("/")[2] if words else ""
    return next((runner for runner in _REPORTING if runner == name), "other")


def follow_script(check: CheckCommand, package: bytes) -> CheckCommand:
    """Return the command with the runner that its script starts: `npm test` may be jest. `package`: the text of
    `package.json`, empty if there is none."""
    match = _SCRIPT.fullmatch(check.text.strip())
    if match is None or check.runner != "other":
        return check
    try:
        scripts = decode_json(package, _Package).scripts
    except msgspec.MsgspecError:
        return check
    name = "test" if match["name"] == "t" else match["name"]
    runner = parse_command(scripts.get(name, "")).runner
    if runner not in _REPORTING:
        return check
    return CheckCommand(f"{check.text} --" if match["manager"] == "npm" else check.text, runner)


class _Package(Struct):
    scripts: dict[str, str] = {}


def _skip_launchers(words: Sequence[str]) -> int:
    start = 0
    while start < len(words) and _ASSIGNMENT.fullmatch(words[start]):
        start += 1
    for launcher in _LAUNCHERS:
        if tuple(words[start : start + len(launcher)]) == launcher:
            start += len(launcher)
    return start


def _parse_node(text: str, words: Sequence[str], start: int) -> CheckCommand:
    """Split the words behind `node`. The shell expands patterns of paths, so these are left as they are."""
    if any(sign in text for sign in _SIGNS):
        return CheckCommand(text, "other")
    options, paths = list[str](), list[str]()
    rest = iter(words[start:])
    for word in rest:
        (options if word.startswith("-") else paths).append(word)
        if word in _NODE_VALUES and (value := next(rest, None)) is not None:
            options.append(value)
    if not any(option.startswith("--test-reporter") for option in options):
        options.append("--test-reporter=tap")
    return CheckCommand(text, "node", tuple(words[:start]), tuple(options), tuple(paths))


def _parse_pytest(text: str, words: Sequence[str], start: int) -> CheckCommand:
    """Split the words behind `pytest` into options and paths, unless a `cd` or another command is around them."""
    if any(sign in text for sign in _SIGNS):
        return CheckCommand(text, "other")
    with_value = {option.removesuffix("=") for option in get_options(["pytest"]) if option.endswith("=")}
    options, paths = list[str](), list[str]()
    rest = iter(words[start:])
    for word in rest:
        if not word.startswith("-"):
            paths.append(word)
            continue
        options.append(word)
        if word in with_value and (value := next(rest, None)) is not None:
            options.append(value)
    return CheckCommand(text, "pytest", tuple(words[:start]), tuple(options), tuple(paths))


def _quote(path: str) -> str:
    """Quote a path for a shell, which still has to expand patterns in it."""
    return path if _PATTERN.fullmatch(path) else shlex.quote(path)


def _join(words: Sequence[str]) -> str:
    """Join words for a shell; assignments before the command stay assignments."""
    count = 0
    while count < len(words) and _ASSIGNMENT.fullmatch(words[count]):
        count += 1
    assignments = [f"{name}={shlex.quote(value)}" for name, _, value in (word.partition("=") for word in words[:count])]
    return " ".join([*assignments, shlex.join(words[count:])])


def with_recorder(command: str) -> str:
    """Return a command that keeps the recorder on the path of Python where it sets that path itself."""
    return _PYTHON_PATH.sub(f"PYTHONPATH={RECORDER}:", command)
