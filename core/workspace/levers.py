"""Files that make something happen by themselves, or that steer the agent: what each of them does, in words.

Red levers (`is_red`) act without anybody calling them, or change what the agent may do; they are accepted one by one,
each confirmed, and never in bulk. The others run when the user calls a tool that reads them, which is what they are
there for: they are labelled, and accepted like any file. Names are compared as the most lenient file system would.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from msgspec import Struct

from core.workspace.names import folded, is_git_internal, is_plan

_AGENT: Final = "changes what the agent may do, or what it is told"
_EDITOR: Final = "runs by itself when an editor opens the project"
_HOOK: Final = "runs by itself when git commits, merges or pushes"
_CI: Final = "runs by itself on the build server, with its secrets, once it is pushed"
_GIT: Final = "changes what git runs, or where it fetches from, by itself"
_PYTHON: Final = "runs by itself whenever that Python starts"
_SHELL: Final = "runs by itself when a shell or an editor starts here"
_CALLED: Final = "runs when you call the tool that reads it"

_RED_DIRECTORIES: Final[Mapping[str, str]] = {
    **dict.fromkeys((".cursor", ".agent-tui", ".claude", ".codex", ".gemini"), _AGENT),
    **dict.fromkeys((".vscode", ".idea", ".zed", ".fleet"), _EDITOR),
    ".devcontainer": "runs by itself when the container is built or opened",
    **dict.fromkeys((".husky", ".githooks"), _HOOK),
    **dict.fromkeys((".circleci", ".buildkite", ".woodpecker"), _CI),
}
_RED_FILES: Final[Mapping[str, str]] = {
    **dict.fromkeys((".gitmodules", ".gitattributes", ".gitconfig"), _GIT),
    **dict.fromkeys((".pre-commit-config.yaml", ".pre-commit-config.yml"), _HOOK),
    **dict.fromkeys(("lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml"), _HOOK),
    ".envrc": "runs by itself when a shell enters the directory",
    **dict.fromkeys((".cursorrules", "agents.md", "claude.md", "gemini.md", "copilot-instructions.md"), _AGENT),
    **dict.fromkeys((".cursorignore", ".cursorindexingignore"), "changes what the agent may see"),
    **dict.fromkeys((".mcp.json", "mcp.json"), "starts programs for the agent by itself"),
    **dict.fromkeys((".exrc", ".nvim.lua", ".nvimrc", ".vimrc", ".lvimrc", ".dir-locals.el"), _SHELL),
    **dict.fromkeys((".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"), _SHELL),
    **dict.fromkeys((".gitlab-ci.yml", ".travis.yml", ".drone.yml", ".cirrus.yml", "jenkinsfile"), _CI),
    **dict.fromkeys(("azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml"), _CI),
    **dict.fromkeys(("pyvenv.cfg", "sitecustomize.py", "usercustomize.py"), _PYTHON),
}
_RED_SUFFIXES: Final[Mapping[str, str]] = {".code-workspace": _EDITOR}
_LABELLED: Final[Mapping[str, str]] = {
    "conftest.py": "runs whenever pytest starts here",
    **dict.fromkeys(("makefile", "gnumakefile", "justfile", "rakefile", "taskfile.yml", "cmakelists.txt"), _CALLED),
    **dict.fromkeys(("package.json", "setup.py", "noxfile.py", "tox.ini", "build.rs", "build.gradle"), _CALLED),
    **dict.fromkeys(("build.gradle.kts", "pom.xml", "dockerfile", "compose.yaml", "compose.yml"), _CALLED),
    **dict.fromkeys(("docker-compose.yml", "docker-compose.yaml"), _CALLED),
    **dict.fromkeys((".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs"), "decides what an install fetches and runs"),
}
# Scripts of a package.json that npm, yarn and pnpm run on their own when packages are installed.
_BY_THEMSELVES: Final = (
    *("preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish", "dependencies"),
)


class Lever(Struct, frozen=True):
    """`risk` goes on where "it …" begins: "runs by itself when …"."""

    risk: str
    is_red: bool = False


def is_protected(rel: str) -> bool:
    """Whether a change of this path is never accepted in bulk; plan files (`is_plan`) are not protected."""
    lever = lever_of(rel)
    return lever is not None and lever.is_red


def lever_of(rel: str, old: bytes = b"", new: bytes = b"") -> Lever | None:
    """What a file makes happen; None: nothing that is known. `old`, `new`: its content before and after a change."""
    parts = [folded(part) for part in rel.split("/")]
    if is_plan(rel):
        return None
    if (risk := _red(rel, parts)) is not None:
        return Lever(risk, is_red=True)
    name = parts[-1]
    if name == "package.json" and (scripts := _changed_scripts(old, new)):
        return Lever(f"runs by itself when packages are installed ({', '.join(scripts)})", is_red=True)
    if parts[-2:] == [".cargo", "config.toml"]:
        return Lever("decides which programs cargo runs")
    return Lever(_LABELLED[name]) if name in _LABELLED else None


def link_lever(rel: str, target: bytes) -> Lever | None:
    """What a symbolic link does, if it leads out of the project."""
    where = posixpath.normpath(posixpath.join(posixpath.dirname(rel), target.decode("utf-8", "replace")))
    if where.startswith("/") or where.split("/")[0] == "..":
        return Lever("leads out of the project: what is written to it lands elsewhere", is_red=True)
    return None


def _red(rel: str, parts: list[str]) -> str | None:
    if is_git_internal(rel):
        return _HOOK if "hooks" in parts else _GIT
    for part in parts:
        if part in _RED_DIRECTORIES:
            return _RED_DIRECTORIES[part]
    for above, below in pairwise(parts):
        if above == ".github" and below in {"workflows", "actions"}:
            return _CI
    name = parts[-1]
    if name.endswith(".pth") and "site-packages" in parts:
        return _PYTHON
    return _RED_FILES.get(name) or next((_RED_SUFFIXES[each] for each in _RED_SUFFIXES if name.endswith(each)), None)


def _changed_scripts(old: bytes, new: bytes) -> list[str]:
    """Which of the scripts that run by themselves are added or changed."""
    before, after = _scripts(old), _scripts(new)
    return [name for name in _BY_THEMSELVES if name in after and after[name] != before.get(name)]


def _scripts(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data or b"{}")
    except ValueError:
        return {}
    scripts = found.get("scripts") if isinstance(found, dict) else None
    return scripts if isinstance(scripts, dict) else {}
