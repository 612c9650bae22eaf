"""The snippets of the manual are read by what reads a user's own: command lines, settings, themes, hooks, servers.

Workflows, skills, commands and agent definitions have tests that run them. What no program can read is marked `text`.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from core.cli.arguments import parse
from core.cli.mcp import McpArguments
from core.config import loading
from core.config.manual import list_pages
from core.hooks.hook_files import load_hooks
from core.mcp.config_files import add_entry
from core.mcp.server_config import parse_servers
from core.permissions.rules import parse_rule
from core.plans.plan_file import read_plan_file
from core.workspace import Workspace
from tests.contract.source_tree import ROOT
from tui.themes.building import build_themes, read_theme_files

PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in list_pages())]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LANGUAGES = {"sh", "toml", "json", "yaml", "markdown", "ini", "text"}


def snippets(language: str) -> list[object]:
    """Each snippet in a language, with the page and its number as the id of the test."""
    texts = [(page, text) for page in PAGES for kind, text in FENCE.findall(page.read_text()) if kind == language]
    return [pytest.param(text, id=f"{page.stem}-{number}") for number, (page, text) in enumerate(texts)]


def split_commands(block: str) -> list[str]:
    """The commands of a block without comments and redirections; of a pipe or a chain, each part."""
    lines = re.sub(r"\\\n\s*", "", block).splitlines()
    parts = (part for line in lines for part in re.split(r" \| | && ", re.sub(r"(^|\s+)#.*", "", line)))
    return [re.sub(r" [<>] \S+$", "", part).strip() for part in parts if part.strip()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_fence_says_how_it_is_read(page):
    kinds = {kind for kind, _ in FENCE.findall(page.read_text())}
    assert kinds <= LANGUAGES
    assert not re.search(r"^ {4}agent-tui ", page.read_text(), re.MULTILINE), "an indented command is not checked"


@pytest.mark.parametrize("block", snippets("sh"))
def test_every_command_line_is_one_that_the_program_takes(block, tmp_path, monkeypatch):
    for name in ("work", "shop"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(Path, "is_file", lambda path: path.name == "screenshot.png" or path.exists())
    for line in split_commands(block):
        if not line.startswith("agent-tui"):
            continue
        arguments = parse(shlex.split(line)[1:])
        assert arguments.directory.resolve().is_relative_to(tmp_path.resolve())
        if isinstance(arguments, McpArguments) and arguments.entry is not None:
            assert add_entry("", arguments.name, arguments.entry)


@pytest.mark.parametrize("block", snippets("toml"))
def test_every_setting_and_theme_is_loaded(block, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(tmp_path))
    if "base" in tomllib.loads(block):
        (tmp_path / "own.toml").write_text(block)
        files = read_theme_files(tmp_path, {theme.name: theme for theme in build_themes()})
        assert ([theme.name for theme in files.themes], files.problems) == (["own"], ())
        return
    (tmp_path / "config.toml").write_text(block)
    loading.load_settings()
    rules = tomllib.loads(block).get("permissions", {})
    assert [parse_rule(text, effect) for effect, texts in rules.items() for text in texts] or not rules


@pytest.mark.parametrize("block", snippets("json"))
def test_every_server_and_hook_is_loaded(block, tmp_path):
    entry = json.loads(block)
    if "mcpServers" in entry:
        servers, problems = parse_servers(block.encode(), "docs", is_project=True)
        assert (len(servers), problems) == (1, ())
    elif "hooks" in entry:
        for script in re.findall(r"scripts/[\w.-]+", block):
            (tmp_path / script).parent.mkdir(exist_ok=True)
            (tmp_path / script).write_text("#!/bin/sh\n")
        file = tmp_path / (".agent-tui/hooks.json" if "version" in entry else ".claude/settings.json")
        file.parent.mkdir()
        file.write_text(block)
        table = load_hooks(Workspace(tmp_path), lambda *_: True)
        assert len(table.hooks) == block.count('"command":')
        assert table.problems == ()
    else:
        assert entry.keys() <= {"agent_servers", "name", "version", "description", "agents"}


@pytest.mark.parametrize("block", [each for each in snippets("markdown") if "todos:" in each.values[0]])
def test_every_plan_is_one(block):
    plan, _, faults = read_plan_file(block, "docs.plan.md")
    assert (len(plan.todos), faults) == (2, [])
