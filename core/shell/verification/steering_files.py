"""Changed files that decide what a check does: its tests, the settings of its runner, scripts that it starts.

A result that was obtained with such a file changed is one "by tests changed here": the author of the code also wrote
its judge. Most are known by name (the tables), others since the command names them, or since a runner starts them: `npm
test` runs what `package.json` says, `make test` what the Makefile does. A file of Rust holds code and its tests
together.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import cache
from typing import Any, Final, Protocol

import msgspec

from core.errors import AgentTuiError
from core.patterns import compile_lazily
from core.protocol.review import Change
from core.records import decode_json
from core.workspace.file_names import fold_name

_TEST_DIRECTORIES_TEXT: Final = """
    test tests testing spec specs __tests__ __mocks__ __snapshots__ e2e cypress integration_tests unit_tests
    fixtures testdata"""
_TEST_DIRECTORIES: Final = frozenset(_TEST_DIRECTORIES_TEXT.split())
# Of those, what does not test but says how tests run, or what they have to give.
_JUDGES: Final = frozenset({"__snapshots__", "conftest.py"})
_PIPELINES: Final = frozenset({"ci", ".ci", ".github", ".circleci", ".husky"})
_TEST_FILES_TEXT: Final = """
    test_*.py *_test.py *_tests.py tests.py test.py conftest.py doctest*.txt *_test.go *.test.* *.spec.*
    *-test.* *_test.* *_spec.* *test.java *tests.java *test.kt *tests.kt *tests.cs *test.cs *test.php
    *tests.swift *.bats *.snap test-*.sh test_*.sh test_*.*"""
_TEST_FILES: Final = tuple(_TEST_FILES_TEXT.split())
# Directories of programs and scripts that checks call, and of installed packages.
_TOOL_DIRECTORIES_TEXT: Final = """
    bin scripts script tools tool ci .ci hack .github .circleci .cargo .config .mvn gradle node_modules vendor
    .venv venv env site-packages .yarn buildsrc mise-tasks .husky"""
_TOOL_DIRECTORIES: Final = frozenset(_TOOL_DIRECTORIES_TEXT.split())
_SETTINGS_TEXT: Final = """
    pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini tox.toml setup.cfg setup.py pyproject.toml
    noxfile.py .coveragerc mypy.ini .mypy.ini ruff.toml .ruff.toml .flake8 .pylintrc pylintrc pyrightconfig.json
    ty.toml hatch.toml uv.toml pixi.toml manage.py requirements*.txt constraints*.txt *.pth sitecustomize*
    usercustomize* .env .env.* .envrc package.json package-lock.json npm-shrinkwrap.json yarn.lock
    pnpm-lock.yaml pnpm-workspace.yaml .npmrc .yarnrc* bunfig.toml jest.* jest.config.* vitest.* vite.config.*
    babel.config.* .babelrc* .mocharc* ava.config.* karma.conf.* playwright.config.* cypress.config.*
    tsconfig*.json jsconfig.json eslint.config.* .eslintrc* biome.json* .prettierrc* prettier.config.*
    webpack.config.* rollup.config.* turbo.json nx.json deno.json* .swcrc gulpfile.* gruntfile.* makefile
    gnumakefile *.mk makefile.* cmakelists.txt *.cmake ctest* meson.build meson_options.txt build.ninja
    configure* justfile .justfile taskfile.y*ml *.bazel *.bzl workspace buck cargo.toml cargo.lock build.rs
    rust-toolchain* .clippy.toml clippy.toml go.mod go.sum go.work .golangci.* rakefile *.rake gemfile* .rspec
    .rubocop* composer.json phpunit.xml* phpstan.neon* pom.xml *.gradle *.gradle.kts gradle.properties gradlew*
    mvnw* *.sbt *.csproj *.sln *.props *.targets *.runsettings global.json nuget.config mix.exs .formatter.exs
    package.swift *.cabal stack.yaml cabal.project* dune* *.opam project.clj pubspec.yaml analysis_options.yaml
    build.zig* .shellcheckrc .pre-commit-config.yaml mise*.toml .tool-versions flake.nix *.nix *.sh *.bash"""
_SETTINGS: Final = tuple(_SETTINGS_TEXT.split())
# Modules that a Python runner imports by name: a local module of that name in sys.path takes precedence.
_RUNNER_MODULES_TEXT: Final = """
    pytest _pytest py pluggy iniconfig packaging exceptiongroup tomli colorama pygments coverage nose nose2
    xdist execnet hypothesis mock attr attrs tox nox virtualenv filelock platformdirs mypy mypyc ruff pylint
    astroid flake8 pycodestyle pyflakes mccabe black django anyio trio pytest_asyncio pytest_cov pytest_mock
    setuptools pkg_resources pip typing_extensions zope twisted sitecustomize usercustomize"""
_RUNNER_MODULES: Final = frozenset(_RUNNER_MODULES_TEXT.split())
_RUNNERS: Final = frozenset({"pytest", "_pytest", "pluggy", "unittest"})
_IMPORT_ROOTS: Final = frozenset({"", "src", "lib", "python"})
_MODULE_ENDINGS: Final = (".py", ".pyc", ".pyi", ".so", ".pyd")
_SETTING_OPTIONS_TEXT: Final = """
    -c -f -p -C -s -r -P --config --config-file --configuration --file --makefile --rcfile --rootdir
    --confcutdir --settings --project --cfg --require --import --loader --setup --plugin --preset --reporter
    --environment"""
_SETTING_OPTIONS: Final = frozenset(_SETTING_OPTIONS_TEXT.split())
_INTERPRETER: Final = compile_lazily(
    r"(?:.*/)?(?:python[\d.]*|sh|bash|dash|zsh|node|deno|bun|ruby|perl|php|lua|env|exec|source|\.)"
)
_MAX_BYTES: Final = 256 * 1024
_MAKE: Final = ("Makefile", "makefile", "GNUmakefile")
_SCRIPTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "composer"), ("package.json", "composer.json")),
    **dict.fromkeys(("make", "gmake"), _MAKE),
    "just": ("justfile", ".justfile", "Justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "tox": ("tox.ini", "pyproject.toml", "tox.toml"),
    "nox": ("noxfile.py",),
    **dict.fromkeys(("hatch", "pdm", "poe", "poetry", "uv"), ("pyproject.toml",)),
}
_TWINS: Final = (("", "js", "mjs", "cjs", "jsx", "ts", "tsx", "json", "node"), ("py", "so", "pyd", "abi3.so"))
_RECIPE: Final = compile_lazily(r"[\n;|&\"']+")
_TESTS_IN_CODE: Final = compile_lazily(rb"^\s*#\[(?:cfg\((?:all\()?test|(?:\w+::)?test\])", re.MULTILINE)


def find_steering(paths: Iterable[str], command: str, *, is_of_tests: bool = False) -> tuple[str, ...]:
    """Select the paths that decide what a check does, by their names, or since `command` runs them, or reads them as
    settings. `is_of_tests`: the command runs tests, so any file in it is one."""
    started_paths = list_started(command.split())
    if is_of_tests and command.split()[:1] not in (["test"], ["["]):  # a shell condition runs no file
        started_paths |= {word.strip("'\"").partition("::")[0].removeprefix("./") for word in command.split()}
    return tuple(path for path in paths if _is_steering(path) or _is_named(path, started_paths))


def _is_named(path: str, names: set[str]) -> bool:
    """True if one of the names is the path or its end, since the command may change the directory."""
    parts = path.split("/")
    return any("/".join(parts[index:]) in names for index in range(len(parts)))


def list_started(words: list[str]) -> set[str]:
    """Return the paths that a command starts or that are values of options, but not those that it only reads."""
    paths = set[str]()
    for before, word in zip(["", *words], words, strict=False):
        value = word.strip("'\"").rpartition("=")[2]
        if not before or before in _SETTING_OPTIONS or "=" in word or _INTERPRETER.fullmatch(before):
            paths |= {value.removeprefix("./"), f"{value.replace('.', '/')}.py"}
    return paths


def is_test_file(path: str) -> bool:
    """True for a test, or for data of tests, by its name or its directory."""
    *directories, name = [fold_name(part) for part in path.split("/")]
    if not _JUDGES.isdisjoint((*directories, name)) or name.endswith(".snap"):
        return False
    return not _TEST_DIRECTORIES.isdisjoint(directories) or _build_pattern(_TEST_FILES).fullmatch(name) is not None


def is_judging_file(path: str) -> bool:
    """True for a file that says how tests run, or what they have to give, by its name: settings of runners, expected
    output, pipelines, a module in place of one that a runner imports. The scripts that a check starts are not among
    them."""
    *directories, name = [fold_name(part) for part in path.split("/")]
    if not _JUDGES.isdisjoint((*directories, name)) or name.endswith(".snap"):
        return True
    if _shadows_runner([*directories, name]):
        return True
    return not _PIPELINES.isdisjoint(directories) or _build_pattern(_SETTINGS).fullmatch(name) is not None


def _is_steering(path: str) -> bool:
    parts = [fold_name(part) for part in path.split("/")]
    directories, name = parts[:-1], parts[-1]
    if parts == ["__init__.py"]:  # pytest imports it before the tests in its directory
        return True
    if not (_TEST_DIRECTORIES | _TOOL_DIRECTORIES).isdisjoint(directories):
        return True
    if any(part.endswith((".egg-info", ".dist-info")) for part in directories):
        return True
    return _build_pattern((*_TEST_FILES, *_SETTINGS)).fullmatch(name) is not None or _shadows_import(parts)


@cache
def _build_pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(translate(pattern) for pattern in patterns))


def _shadows_import(parts: list[str]) -> bool:
    """True for a module, or a part of a package, that shadows an import of the runner."""
    if not parts[-1].endswith(_MODULE_ENDINGS):
        return False
    for index, part in enumerate(parts):
        if "/".join(parts[:index]) not in _IMPORT_ROOTS:
            return False
        module = part.partition(".")[0]
        is_runner = module in _RUNNER_MODULES or module.startswith("pytest_") or module in sys.stdlib_module_names
        if is_runner and module not in _IMPORT_ROOTS:
            return True
    return False


def _shadows_runner(parts: list[str]) -> bool:
    """True for a single module in place of one that a runner imports, or a package in place of a runner. Projects that
    are such packages themselves (attrs, mypy) are no forgeries."""
    is_module = "/".join(parts[:-1]) in _IMPORT_ROOTS
    return (is_module or parts[0] in _RUNNERS) and _shadows_import(parts)


class PendingTexts(Protocol):
    """The pending files and the original versions of changed ones; implemented by the shadow."""

    def read(self, rel: str, /) -> bytes | None: ...

    def read_base(self, change: Change, /) -> bytes: ...


def find_changed_steering_files(
    changes: Mapping[str, Change], command: str, texts: PendingTexts, *, is_of_tests: bool
) -> tuple[str, ...]:
    """Select the changed files that decide what a check does. `is_of_tests`: it runs tests, so any file in the command
    is one."""
    paths = list(changes)
    named_paths = {
        *find_steering(paths, command, is_of_tests=is_of_tests),
        *_find_runner_scripts(paths, command, texts),
    }
    inner = {path for path in paths if path.endswith(".rs") and _has_changed_tests(changes[path], texts)}
    inner |= {path for path in paths if changes[path].operation == "create" and _has_twin(path, texts)}
    return tuple(path for path in paths if path in named_paths | inner)


def _has_twin(path: str, texts: PendingTexts) -> bool:
    """Return True for a new module beside one of the same name, which it may shadow."""
    stem, dot, ending = path.rpartition(".")
    if path.endswith("/__init__.py"):
        return bool(_read(texts, f"{path.rpartition('/')[0]}.py"))
    if not dot or "/" in ending:
        stem, ending = path, ""
    endings = next((group for group in _TWINS if ending in group), ())
    twins = (f"{stem}.{other}" if other else stem for other in endings if other != ending)
    return any(_read(texts, twin) for twin in twins)


def _find_runner_scripts(paths: Iterable[str], command: str, texts: PendingTexts) -> Iterable[str]:
    words = set(re.split(r"[\s/]+", command))
    names = dict.fromkeys(name for runner, names in _SCRIPTS.items() if runner in words for name in names)
    scripts = (_read(texts, name)[:_MAX_BYTES] for name in names)
    program_paths = {path for text in scripts for path in _list_programs(text.decode("utf-8", "replace"))}
    return (path for path in paths if any(path == one or path.endswith(f"/{one}") for one in program_paths))


def _list_programs(text: str) -> Iterable[str]:
    """Yield the paths that recipes start, or pass to an interpreter."""
    for piece in _RECIPE.split(_extract_scripts(text)):
        yield from list_started(piece.strip(" \t@-+:,").split())


def _extract_scripts(text: str) -> str:
    """Return the scripts of a `package.json`, one per line; any other text unchanged."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        scripts = decode_json(text.encode(), dict[str, Any]).get("scripts")
    except (msgspec.MsgspecError, ValueError):
        return text
    return "\n".join(str(value) for value in scripts.values()) if isinstance(scripts, dict) else ""


def _has_changed_tests(change: Change, texts: PendingTexts) -> bool:
    """Return True if the part of a file from its first test on has changed."""
    return _extract_tests(_read(texts, change.path)) != _extract_tests(texts.read_base(change))


def _extract_tests(data: bytes) -> bytes:
    match = _TESTS_IN_CODE.search(data)
    return data[match.start() :] if match is not None else b""


def _read(texts: PendingTexts, path: str) -> bytes:
    try:
        return texts.read(path) or b""
    except AgentTuiError:  # a directory, or a file that is too large
        return b""
