"""The project at another path: in tiers without mounts a command runs in a copy, and much leads back to the original.

An environment with the project installed "editable" imports the original's code, whatever the copy holds: a test could
pass on text that it never ran. So the environments that a command can reach are read (their `.pth` files, setuptools'
and hatchling's finders, `direct_url.json`), what leads into the project is mapped into the copy by PYTHONPATH, which
Python searches before all of them, and so are directories in PATH. A run with something that can't be mapped is no
evidence, and says why.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from core.patterns import compile_lazily
from core.records import decode_json

_ENVIRONMENTS = (".venv", "venv", "env", ".env")
_LIBRARIES = ("lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3/dist-packages")
_LOCAL_LIBRARIES = "lib/python3*/dist-packages"
_MAX_BYTES = 1 << 20
_HOOK = compile_lazily(r"import\s+([A-Za-z_]\w*)")
_REDIRECTION = compile_lazily(r"map_module\(\s*(['\"])(?P<name>[\w.]+)\1\s*,\s*(?P<path>['\"].*?['\"])\s*\)")
_MAPPING = compile_lazily(r"^MAPPING\b[^=\n]*=\s*(\{.*\})\s*$", re.MULTILINE)
_NAMESPACES = compile_lazily(r"^NAMESPACES\b[^=\n]*=\s*(\{.*\})\s*$", re.MULTILINE)
_MOST_NAMED = 3
_HARMLESS = frozenset({"test", "this", "antigravity"})  # modules of the standard library that nothing imports
# Programs that run no Python, so that an environment of Python's has no part in their result.
_OTHERS = compile_lazily(
    r"\s*(?:npm|npx|pnpm|yarn|node|bun|deno|tsc|eslint|jest|vitest|cargo|rustc|go|gofmt|mvn|gradle|dotnet|swift|ctest)\b"
)


class PathMapping(Struct, frozen=True, kw_only=True):
    """The variables that lead a command into the copy, and why its result is no evidence ("" = it is)."""

    env: Mapping[str, str]
    problem: str = ""


class _Link(NamedTuple):
    """A path in the project that an environment imports from; `package`: only this one. `problem`: it can't be
    mapped, for this reason."""

    path: str
    package: str = ""
    problem: str = ""


def map_paths(env: Mapping[str, str], workspace: Path, root: Path, command: str = "") -> PathMapping:
    """Map what leads into the workspace to its copy in `root`, for the variables `env` of a command."""
    top = str(workspace)
    changes = _map_variables(env, top, str(root))
    libraries = sorted({library for prefix in _list_prefixes(env, workspace) for library in _list_libraries(prefix)})
    links = [link for library in libraries for link in _read_library(library, top)]
    problems, paths = [], list[str]()
    for link in links:
        mapped, problem = _map_link(link, top, str(root))
        problems += [problem] if problem else []
        paths += [mapped] if mapped and mapped not in paths else []
    if paths:
        own = changes.get("PYTHONPATH", env.get("PYTHONPATH", ""))
        changes["PYTHONPATH"] = os.pathsep.join([*paths, *([own] if own else [])])
    is_python = not _OTHERS.match(command)
    return PathMapping(env=changes, problem=_explain(sorted(set(problems))) if problems and is_python else "")


def _explain(problems: list[str]) -> str:
    more = f" (and {len(problems) - _MOST_NAMED} more)" if len(problems) > _MOST_NAMED else ""
    return (
        f"The command ran in a copy of the project, and its Python may have run the original's code: "
        f"{'; '.join(problems[:_MOST_NAMED])}{more}. So its result proves nothing about the pending changes."
    )


def rewrite_command(command: str, workspace: Path, root: Path) -> str:
    """Return the command with the project's absolute path replaced by the copy's: `cd /project && make` means the
    project as the command sees it."""
    top = str(workspace)
    if top == "/" or top not in command:
        return command
    after = r"(?=$|[/\s'\"`;&|()<>:,=\]}])(?!/\.\.(?:/|$|\s))"  # not `shop-2`, and not a directory beside it
    return re.sub(rf"(?<![\w./~-]){re.escape(top)}{after}", lambda _: str(root), command)


def _map_variables(env: Mapping[str, str], top: str, root: str) -> dict[str, str]:
    """Map directories of PATH and of PYTHONPATH, and an environment in the project that was copied with it."""
    changes = {}
    for name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV"):
        before = env.get(name, "")
        entries = [_map_existing(entry, top, root) for entry in before.split(os.pathsep)]
        if (after := os.pathsep.join(entries)) != before:
            changes[name] = after
    return changes


def _map_existing(path: str, top: str, root: str) -> str:
    mapped = _map_into(path, top, root)
    return mapped if mapped is not None and os.path.exists(mapped) else path


def _map_into(path: str, top: str, root: str) -> str | None:
    """Return the copy's counterpart of a path in the project; None for any other path."""
    if path == top or path.startswith(f"{top}/"):
        return root + path[len(top) :]
    return None


def _list_prefixes(env: Mapping[str, str], workspace: Path) -> Iterator[Path]:
    """Yield where the interpreters are installed that a command can find."""
    if environment := env.get("VIRTUAL_ENV"):
        yield Path(environment)
    for entry in env.get("PATH", "").split(os.pathsep):
        directory = Path(entry)
        if directory.is_absolute() and directory.name in {"bin", "sbin"}:
            yield directory.parent
    yield from (workspace / name for name in _ENVIRONMENTS if os.access(workspace / name / "pyvenv.cfg", os.R_OK))
    if home := env.get("HOME"):
        yield Path(home, ".local")
        yield from _glob(Path(home, ".pyenv", "versions"), "*")


def _list_libraries(prefix: Path) -> list[Path]:
    patterns = (*_LIBRARIES, *([_LOCAL_LIBRARIES] if prefix.name == "local" else []))
    return [path for pattern in patterns for path in _glob(prefix, pattern) if not path.is_symlink()]


def _glob(directory: Path, pattern: str) -> list[Path]:
    """Return the matches in a directory; none in one that can't be read."""
    try:
        return list(directory.glob(pattern))
    except OSError:
        return []


def _read_library(library: Path, top: str) -> tuple[_Link, ...]:
    try:
        return _read_library_as_of(str(library), library.stat().st_mtime_ns, top)
    except OSError:
        return ()


@lru_cache(maxsize=64)
def _read_library_as_of(library: str, _modified: int, top: str) -> tuple[_Link, ...]:
    """Return the links of a site-packages directory into the project."""
    names = os.listdir(library)
    links: list[_Link] = []
    for name in sorted(names):
        if name.endswith((".pth", ".egg-link")):
            links += _read_path_file(Path(library), name, top)
    for name in sorted(names):
        if name.endswith(".dist-info") and (project := _read_editable(Path(library, name))):
            is_in_project = _map_into(project, top, top) is not None
            if is_in_project and not any(_is_related(link.path, project) for link in links):
                links.append(
                    _Link(project, problem=f"{name.partition('-')[0]} is installed editable in an unknown way")
                )
    return tuple(links)


def _is_related(path: str, project: str) -> bool:
    return path == project or path.startswith(f"{project}/")


def _read_path_file(library: Path, name: str, top: str) -> Iterator[_Link]:
    for line in _read_text(library / name).splitlines():
        text = line.strip()
        if text.startswith(("import ", "import\t")):
            yield from _read_hook(library, text, top)
        elif text and not text.startswith("#"):
            path = os.path.normpath(library / text)
            if _map_into(path, top, top) is not None:
                yield _Link(path)


def _read_hook(library: Path, line: str, top: str) -> Iterator[_Link]:
    """Read a finder that a `.pth` file installs: setuptools' (a mapping) or that of the package `editables`."""
    match = _HOOK.match(line)
    text = _read_text(library / f"{match[1]}.py") if match else ""
    if top not in text and top not in line:
        return
    packages = dict(_read_mapping(text))
    inside = {name: path for name, path in packages.items() if _map_into(path, top, top) is not None}
    yield from (_Link(path, package=name) for name, path in inside.items())
    if not inside:
        label = match[1] if match else line[:40]
        yield _Link(top, problem=f"the import hook {label} leads to it")
    elif (spaces := _NAMESPACES.search(text)) and spaces[1] != "{}":
        yield _Link(top, problem=f"the namespace packages of {match[1] if match else line[:40]} lead to it")


def _read_mapping(text: str) -> Iterator[tuple[str, str]]:
    if match := _MAPPING.search(text):
        value = _evaluate(match[1])
        if isinstance(value, dict):
            yield from ((str(name), os.path.normpath(str(path))) for name, path in value.items())
    for match in _REDIRECTION.finditer(text):
        path = _evaluate(match["path"])
        if isinstance(path, str):  # of the package's __init__.py
            directory = os.path.dirname(path) if path.endswith("__init__.py") else path
            yield match["name"], os.path.normpath(directory)


def _evaluate(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


class _DirectoryInfo(Struct):
    editable: bool = False


class _DirectUrl(Struct):
    url: str
    dir_info: _DirectoryInfo | None = None


def _read_editable(dist_info: Path) -> str:
    """Return the directory from which a distribution is installed editable, "" if it is not."""
    try:
        origin = decode_json(_read_text(dist_info / "direct_url.json").encode(), _DirectUrl)
    except msgspec.MsgspecError:
        return ""
    if origin.dir_info is None or not origin.dir_info.editable or not origin.url.startswith("file:"):
        return ""
    return os.path.normpath(unquote(urlsplit(origin.url).path))


def _map_link(link: _Link, top: str, root: str) -> tuple[str, str]:
    """Return the directory for PYTHONPATH, or why there is none."""
    mapped = _map_into(link.path, top, root)
    if mapped is None or link.problem:
        return "", link.problem
    if not link.package:
        return (mapped, "") if not (names := _find_shadowing(mapped)) else ("", _describe_shadowing(mapped, names))
    *_, last = link.package.split(".")
    directory = Path(mapped)
    is_module = directory.name == f"{last}.py" or Path(f"{mapped}.py").is_file()
    for _part in link.package.split("."):
        directory = directory.parent
    parts = mapped.removesuffix(".py").split("/")[-len(link.package.split(".")) :]
    if parts != link.package.split(".") or not (is_module or os.path.lexists(mapped)):
        return "", f"{link.package} is imported from {os.path.relpath(link.path, top)}, which has another name"
    names = _find_shadowing(str(directory))
    return ("", _describe_shadowing(str(directory), names)) if names else (str(directory), "")


def _find_shadowing(directory: str) -> list[str]:
    """Return names in a directory that would hide modules of the standard library, if it came first."""
    try:
        names = {name.removesuffix(".py") for name in os.listdir(directory) if "." not in name or name.endswith(".py")}
    except OSError:
        return []
    return sorted((names & sys.stdlib_module_names) - _HARMLESS)


def _describe_shadowing(directory: str, names: Iterable[str]) -> str:
    return f"{Path(directory).name} holds {', '.join(names)}, which would hide Python's own"


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
