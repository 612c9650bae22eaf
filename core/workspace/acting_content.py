"""The parts of a file that act by themselves: scripts that an install runs, hooks, settings that name programs.

Most of such a file is ordinary and changes often. So it is red only when a change adds one of these parts, or alters
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from core.records import parse_json, parse_toml

# Scripts that npm, yarn, pnpm and bun run on their own when packages are installed.
_AUTOMATIC_SCRIPTS: Final = (
    *("pnpm:devPreinstall", "preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare"),
    *("prepublish", "dependencies", "predependencies", "postdependencies"),
)
# Keys of a package.json from which hooks of git are made, or that name programs of an install.
_HOOK_KEYS: Final = (
    *("husky", "simple-git-hooks", "lint-staged", "pre-commit", "pre-push", "gitHooks", "ghooks", "nano-staged"),
    *("commitlint", "trustedDependencies"),
)
_CALLS_SCRIPT: Final = re.compile(r"(?:npm|yarn|pnpm|bun)(?:\s+-\S+)*\s+(?:run(?:-script)?\s+)?([\w:.-]+)")
# Lines of settings that name a program or code, by the name of the file.
_ACTING_LINES: Final = {
    ".npmrc": r"\s*(?:node-options|script-shell|shell|git|node-gyp|editor|viewer|browser|init-module|onload-script"
    r"|(?:global)?-?pnpmfile|use-node-version|(?:global|user)config)\s*=",
    ".yarnrc": r"\s*[\"']?(?:yarn-path|script-shell|--.*(?:yarn-path|use-yarnrc))",
    ".yarnrc.yml": r"\s*(?:-\s+)?[\"']?(?:yarnPath|plugins|path|spec|injectEnvironmentFiles)[\"']?\s*:",
    "bunfig.toml": r"\s*(?:preload|shell)\s*=",
    "rust-toolchain.toml": r"\s*path\s*=",
    "rust-toolchain": r"\s*path\s*=",
    ".tool-versions": r"\s*\S+\s+.*\bpath:",
    "gradle.properties": r"\s*org\.gradle\.(?:jvmargs|java\.home)\s*=",
    ".rspec": r"\s*(?:-r|--require|-I)\b",
}
_ACTS: Final = {
    "package.json": "runs by itself when packages are installed or git commits",
    "composer.json": "runs by itself when packages are installed",
    "pyproject.toml": "runs by itself when packages are installed",
}
_NAMES_PROGRAM: Final = "names a program or code that its tool runs by itself"


def find_acting_change(name: str, old: bytes, new: bytes) -> str:
    """Return what completes "it …" for a change of a file with this folded name; "" = nothing in it acts by itself."""
    before, after = list_acting_parts(name, old), list_acting_parts(name, new)
    changed = [key for key, value in after.items() if before.get(key) != value]
    if not changed:
        return ""
    return f"{_ACTS.get(name, _NAMES_PROGRAM)} ({', '.join(changed)})"


def list_acting_parts(name: str, data: bytes) -> dict[str, str]:
    """Return the parts of a file that act by themselves, with their text; none for a file of another name."""
    if (read := _READERS.get(name)) is not None:
        return dict(read(data))
    if (pattern := _ACTING_LINES.get(name)) is None:
        return {}
    lines = data.decode("utf-8", "replace").splitlines()
    return {line.strip(): line for line in lines if re.match(pattern, line)}


def _read_package(data: bytes) -> Iterator[tuple[str, str]]:
    package = _parse_object(data)
    scripts = _get_table(package, "scripts")
    waiting, reached = [name for name in _AUTOMATIC_SCRIPTS if name in scripts], dict[str, str]()
    for name in waiting:  # grows meanwhile
        reached[name] = str(scripts[name])
        for called in _CALLS_SCRIPT.findall(reached[name]):
            waiting += [each for each in (f"pre{called}", called, f"post{called}") if each in scripts.keys() - waiting]
    yield from reached.items()
    for key in _HOOK_KEYS:
        if key in package:
            yield key, json.dumps(package[key], sort_keys=True)
    manager = package.get("packageManager")
    if isinstance(manager, str) and "/" in manager:
        yield "packageManager", manager


def _read_composer(data: bytes) -> Iterator[tuple[str, str]]:
    package = _parse_object(data)
    for name, value in _get_table(package, "scripts").items():
        if name.startswith(("pre-", "post-")) or name in {"init", "command"}:
            yield name, json.dumps(value, sort_keys=True)
    plugins = _get_table(package, "config").get("allow-plugins")
    if plugins is not None:
        yield "allow-plugins", json.dumps(plugins, sort_keys=True)


def _read_python_project(data: bytes) -> Iterator[tuple[str, str]]:
    try:
        project: Mapping[str, object] = parse_toml(data.decode("utf-8", "replace"))
    except ValueError:
        return
    for name, value in _get_table(_get_table(_get_table(project, "tool"), "pdm"), "scripts").items():
        if name.startswith(("pre_", "post_")):
            yield name, str(value)
    path = _get_table(project, "build-system").get("backend-path")
    if path is not None:
        yield "backend-path", str(path)


def _parse_object(data: bytes) -> Mapping[str, object]:
    try:
        found = parse_json(data or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _get_table(of: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


_READERS: Final[dict[str, Callable[[bytes], Iterator[tuple[str, str]]]]] = {
    "package.json": _read_package,
    "composer.json": _read_composer,
    "pyproject.toml": _read_python_project,
}
# Names of files of which only some parts act.
PARTLY_ACTING: Final = frozenset({*_READERS, *_ACTING_LINES})
