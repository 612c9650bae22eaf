"""The parts of a file that act by themselves: install scripts, hooks, settings that name programs.

Most of such a file is ordinary and changes often, so it is protected only when a change adds or alters one of these
parts. A text may call a script of the project's manifest through a runner (`npm run x`, `composer x`, `deno task x`),
which hides the command: `read_scripts` and `select_scripts` look it up. Script names are literal, except that `*` makes
a pattern.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from core.patterns import compile_lazily
from core.records import parse_json, parse_toml

_CALL: Final = compile_lazily(
    r"(?<![\w./-])(npm|pnpm|yarn|bun|nr|run-s|run-p|npm-run-all2?|composer|deno|wireit)(?:\.cmd)?(?=[\s\"',])([^\n;&|]*)"
)
# This is a task of an editor with `"type": "npm"`.
_TASK: Final = compile_lazily(r"[\"']script[\"']\s*:\s*[\"']([\w:.-]+)[\"']")
_PREFIXED: Final = compile_lazily(r"(?<![\w/.-])(?:npm|yarn|pnpm|bun):([\w:.*-]+)")
_DIRECTORY_OPTIONS: Final = frozenset({"--prefix", "-C", "--cwd", "--dir", "-w", "--workspace", "-d", "--working-dir"})
_FILTER_OPTIONS: Final = frozenset({"--filter", "-F", "--workspaces", "-r", "--recursive", "-ws"})
_RUN: Final = frozenset({"run", "run-script", "rum", "urn", "exec", "task", "workspace", "workspaces", "foreach"})
_SHORT: Final = {"t": "test", "tst": "test", "it": "test", "cit": "test", "install-test": "test"}
_MANIFESTS: Final = {
    "composer": (("composer.json", "scripts"),),
    "deno": (("deno.json", "tasks"), ("deno.jsonc", "tasks"), ("package.json", "scripts")),
}
_PACKAGE: Final = (("package.json", "scripts"),)
_COMMENT: Final = compile_lazily(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
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
_PNPM_KEYS: Final = (
    *("pnpmfile", "globalPnpmfile", "onlyBuiltDependencies", "onlyBuiltDependenciesFile", "dangerouslyAllowAllBuilds"),
    *("allowBuilds", "configDependencies", "scriptShell", "nodeOptions", "shellEmulator"),
)
# A line of YAML whose key a search can't find: complex, escaped, tagged, merged or in braces.
_ODD_LINE: Final = r"\s*(?:-\s+)?(?:[?:](?:\s|$)|[{!&*]|<<|---\s+\S|\"[^\"]*\\|%)"
# Lines of settings that name a program or code, by the name of the file.
_ACTING_LINES: Final = {
    ".yarnrc": r"\s*[\"']?(?:yarn-path|script-shell|--.*(?:yarn-path|use-yarnrc))",
    ".yarnrc.yml": r"\s*(?:-\s+)?[\"']?(?:yarnPath|plugins|path|spec|injectEnvironmentFiles)[\"']?\s*:"
    rf"|{_ODD_LINE}",
    ".tool-versions": r"\s*\S+\s+.*\bpath:",
    "gradle.properties": r"\s*org\.gradle\.(?:jvmargs|java\.home)\s*=",
    ".rspec": r"\s*(?:-r|--require|-I)\b",
}
_NPM_KEY: Final = compile_lazily(
    r"(?:node-options|script-shell|shell|git|node-gyp|editor|viewer|browser|init-module|onload-script"
    r"|(?:global)?-?pnpmfile|use-node-version|(?:global|user)config)\Z"
)
_ACTS: Final = {
    "package.json": "runs automatically when packages are installed or git commits",
    "composer.json": "runs automatically when packages are installed",
    "package.yaml": "runs automatically when packages are installed",
    "package.json5": "runs automatically when packages are installed",
    "pnpm-workspace.yaml": "decides what runs automatically when packages are installed",
    "pyproject.toml": "runs automatically when packages are installed",
    "cargo.toml": "runs automatically when cargo checks or builds, as an editor does when it opens the project",
}
_NAMES_PROGRAM: Final = "names a program or code that its tool runs automatically"


class RunnerCall(Struct, frozen=True):
    """A call of scripts. `manifests`: names of files and of tables in them; `directory`: the manifest's, "" = the
    present.

    `is_anywhere`: the packages are not selected by directory.
    """

    manifests: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    directory: str = ""
    is_anywhere: bool = False


def find_calls(text: str) -> list[RunnerCall]:
    """Find the calls of scripts in a text of any format; some of the names may be no scripts."""
    calls = [_read_call(match[1], match[2]) for match in _CALL.finditer(text)]
    names = (*_PREFIXED.findall(text), *(_TASK.findall(text) if "npm" in text else ()))
    return [call for call in calls if call.names] + ([RunnerCall(_PACKAGE, names)] if names else [])


def _read_call(runner: str, rest: str) -> RunnerCall:
    words = re.sub(r"[\"'\\,\[\](){}`]", " ", rest).replace("=", " ").split()
    directory, is_anywhere, names = "", False, list[str]()
    for before, word in zip(("", *words), words, strict=False):
        if before in _DIRECTORY_OPTIONS:
            directory = directory or word
        elif word in _FILTER_OPTIONS or before in _FILTER_OPTIONS:
            is_anywhere = True
        if not word.startswith("-") and word not in _RUN:
            names.append(_SHORT.get(word, word))
    return RunnerCall(_MANIFESTS.get(runner, _PACKAGE), tuple(names[:12]), directory, is_anywhere)


def read_scripts(data: bytes, table: str | None) -> dict[str, str]:
    """Return the scripts in a table of a manifest (`table` None: in its root) by their names; {} if it can't be parsed.
    Comments (jsonc) are ignored."""
    try:
        text = _COMMENT.sub(lambda match: match[1] or " ", data.decode("utf-8", "replace"))
        manifest = json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
    except (ValueError, RecursionError):
        return {}
    scripts = manifest.get(table) if isinstance(manifest, dict) and table is not None else manifest
    return {name: _join(value) for name, value in scripts.items()} if isinstance(scripts, dict) else {}


def _join(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(_join, value))
    if isinstance(value, dict):
        return _join(list(value.values()))
    return str(value)


def select_scripts(scripts: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Select the named scripts, their pre- and post-scripts, and the scripts that these call."""
    waiting, selection = [*names], dict[str, str]()
    for name in waiting:  # the list grows during the loop
        for script in _match(scripts, name):
            if script not in selection:
                selection[script] = scripts[script]
                waiting += [f"pre{script}", f"post{script}", *_list_called(scripts[script])]
    return selection


def _match(scripts: Mapping[str, str], name: str) -> Iterator[str]:
    if name in scripts:
        yield name
    elif "*" in name:
        pattern = name.replace("**", "*")
        yield from (script for script in scripts if fnmatchcase(script, pattern))


def _list_called(script: str) -> Iterator[str]:
    for call in find_calls(script):
        yield from call.names
    yield from re.findall(r"(?<![\w/])@(?!php\b|putenv\b)([\w:.-]+)", script)  # composer's references to other scripts


def find_acting_change(name: str, old: bytes, new: bytes) -> str:
    """Describe an acting change of a file with this folded name, to complete "it …"; "" = no acting part changed."""
    before, after = list_acting_parts(name, old), list_acting_parts(name, new)
    changed_keys = [key for key, value in after.items() if before.get(key) != value]
    if not changed_keys:
        return ""
    return f"{_ACTS.get(name, _NAMES_PROGRAM)} ({', '.join(changed_keys)})"


def list_acting_parts(name: str, data: bytes) -> dict[str, str]:
    """Return the acting parts of a file with their text; none for other file names."""
    if (read := _READERS.get(name)) is not None:
        return dict(read(data))
    if (pattern := _ACTING_LINES.get(name)) is None:
        return {}
    lines = data.decode("utf-8", "replace").splitlines()
    return {line.strip(): line for line in lines if re.match(pattern, line)}


def _read_package(data: bytes) -> Iterator[tuple[str, str]]:
    package = _parse_object(data)
    yield from select_scripts(read_scripts(data, "scripts"), _AUTOMATIC_SCRIPTS).items()
    tables = {"": (package, _HOOK_KEYS), "config.": (_get_table(package, "config"), _HOOK_KEYS)}
    tables["pnpm."] = (_get_table(package, "pnpm"), _PNPM_KEYS)
    for prefix, (table, keys) in tables.items():
        for key in keys:
            if key in table:
                yield prefix + key, json.dumps(table[key], sort_keys=True)
    manager = package.get("packageManager")
    if isinstance(manager, str) and "/" in manager:
        yield "packageManager", manager


def _read_composer(data: bytes) -> Iterator[tuple[str, str]]:
    package = _parse_object(data)
    scripts = read_scripts(data, "scripts")
    names = [name for name in scripts if name.startswith(("pre-", "post-")) or name in {"init", "command"}]
    yield from select_scripts(scripts, names).items()
    plugins = _get_table(package, "config").get("allow-plugins")
    if plugins is not None:
        yield "allow-plugins", json.dumps(plugins, sort_keys=True)


def _read_python_project(data: bytes) -> Iterator[tuple[str, str]]:
    project = _parse_toml(data)
    yield from _list_unreadable(project)
    tool = _get_table(project, "tool")
    for name, value in _get_table(_get_table(tool, "pdm"), "scripts").items():
        if name.startswith(("pre_", "post_")):
            yield name, str(value)
    if (plugins := _get_table(tool, "poetry").get("requires-plugins")) is not None:
        yield "requires-plugins", str(plugins)
    build = _get_table(project, "build-system")
    if (path := build.get("backend-path")) is not None:
        yield "backend-path", f"{path} {build.get('build-backend')}"


def _read_crate(data: bytes) -> Iterator[tuple[str, str]]:
    crate = _parse_toml(data)
    yield from _list_unreadable(crate)
    build = _get_table(crate, "package").get("build") or _get_table(crate, "project").get("build")
    if isinstance(build, (str, list)):
        yield "build", str(build)


def _read_toolchain(data: bytes) -> Iterator[tuple[str, str]]:
    if b"=" not in data:
        return  # the old form: only the name of a toolchain
    settings = _parse_toml(data)
    yield from _list_unreadable(settings)
    if (path := _get_table(settings, "toolchain").get("path")) is not None:
        yield "path", str(path)


def _read_bun(data: bytes) -> Iterator[tuple[str, str]]:
    settings = _parse_toml(data)
    yield from _list_unreadable(settings)
    waiting: list[tuple[str, object]] = list(settings.items())
    for name, value in waiting:  # grows meanwhile
        if name.rpartition(".")[2] in {"preload", "shell", "plugins"}:
            yield name, str(value)
        elif isinstance(value, dict):
            waiting += [(f"{name}.{key}", below) for key, below in value.items()]


def _read_npm_settings(data: bytes) -> Iterator[tuple[str, str]]:
    for line in data.decode("utf-8", "replace").splitlines():
        key = line.partition("=")[0].strip()
        if not key.startswith(("#", ";")) and ("${" in key or _NPM_KEY.match(_unquote(key))):
            yield line.strip(), line


def _unquote(key: str) -> str:
    """Return a key as npm reads it: quoted, escaped, or that of a list."""
    key = key.removesuffix("[]").strip()
    if len(key) > 1 and key[0] == key[-1] and key[0] in "\"'":
        text = key if key[0] == '"' else f'"{key[1:-1]}"'
        try:
            key = str(parse_json(text))
        except ValueError:
            key = key[1:-1]
    return key.removesuffix("[]")


def _read_pnpm(data: bytes) -> Iterator[tuple[str, str]]:
    text = data.decode("utf-8", "replace")
    yield from cut_blocks(text, _PNPM_KEYS)
    yield from ((line.strip(), line) for line in text.splitlines() if re.match(_ODD_LINE, line))


def _read_odd_package(data: bytes) -> Iterator[tuple[str, str]]:
    text = data.decode("utf-8", "replace")
    if re.search(rf"scripts|pnpm|\\[ux]|{'|'.join(_HOOK_KEYS)}", text):
        yield "scripts", text


def cut_blocks(text: str, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the values of these keys in YAML, TOML or JSON: the rest of the line, and the lines below it that are
    indented deeper or continue a list."""
    begins = re.compile(rf"([\s{{,-]*)[\"']?({'|'.join(map(re.escape, keys))})[\"']?\s*[:=](?!=)(.*)")
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if (match := begins.match(line)) is None:
            continue
        block, indent = [match[3]], len(match[1])
        for below in lines[number + 1 :]:
            depth = len(below) - len(below.lstrip())
            if below.strip() and depth < indent + (not below.lstrip().startswith(("-", "]", "}"))):
                break
            block.append(below)
        yield match[2], "\n".join(block)


def _parse_toml(data: bytes) -> Mapping[str, object]:
    """Parse TOML. Text that can't be parsed is returned under the key "": its tool may accept more than TOML 1.0."""
    text = data.decode("utf-8", "replace")
    try:
        return parse_toml(text)
    except ValueError:
        return {"": text}


def _list_unreadable(table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    if isinstance(text := table.get(""), str):
        yield "it can't be read", text


def _parse_object(data: bytes) -> Mapping[str, object]:
    try:
        document = parse_json(data or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _get_table(parent: Mapping[str, object], name: str) -> Mapping[str, object]:
    table = parent.get(name)
    return table if isinstance(table, dict) else {}


_READERS: Final[dict[str, Callable[[bytes], Iterator[tuple[str, str]]]]] = {
    "package.json": _read_package,
    "composer.json": _read_composer,
    "pyproject.toml": _read_python_project,
    "cargo.toml": _read_crate,
    "rust-toolchain.toml": _read_toolchain,
    "rust-toolchain": _read_toolchain,
    "bunfig.toml": _read_bun,
    ".npmrc": _read_npm_settings,
    "pnpm-workspace.yaml": _read_pnpm,
    "package.yaml": _read_odd_package,
    "package.json5": _read_odd_package,
}
# Names of files with acting parts.
PARTLY_ACTING: Final = frozenset({*_READERS, *_ACTING_LINES})
