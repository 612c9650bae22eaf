"""Places of extension files."""

from __future__ import annotations

import subprocess

import pytest

from core.config.rules.roots import ProjectRoot
from core.extensions.agents import load_agents
from core.extensions.extension_files import MAX_DEPTH, is_extension_path, list_extension_folders
from core.workspace import Workspace

AGENT = "---\nname: {}\ndescription: d\n---\nYou help.\n"


def test_folders_above_the_workspace_count_up_to_the_top_of_its_repository(places):
    below = places.project / "web"
    below.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=places.project, check=True)
    places.write(
        {
            ".claude/agents/a.md": AGENT.format("a"),
            ".claude/agents/b.md": AGENT.format("b"),
            "web/.codex/agents/a.md": AGENT.format("a"),
            "../.claude/agents/x.md": AGENT.format("x"),
        }
    )
    definitions = load_agents(list_extension_folders(Workspace(below), lambda *_: True))
    assert [(agent.name, agent.path) for agent in definitions.agents] == [
        ("a", ".codex/agents/a.md"),
        ("b", "../.claude/agents/b.md"),
    ]


def test_a_project_below_a_home_that_is_a_repository_has_only_the_users_own_from_there(places):
    subprocess.run(["git", "init", "-q"], cwd=places.home, check=True)
    below = places.home / "project"
    below.mkdir()
    places.write({".claude/agents/a.md": AGENT.format("a")}, places.home)
    folders = list_extension_folders(Workspace(below), lambda *_: True)
    assert [(agent.name, agent.scope) for agent in load_agents(folders).agents] == [("a", "user")]


def test_no_link_leads_out_of_a_project_and_depth_is_bounded(places, tmp_path):
    places.write({"agents/x.md": AGENT.format("x")}, tmp_path / "elsewhere")
    (places.project / ".claude").mkdir()
    (places.project / ".claude/agents").symlink_to(tmp_path / "elsewhere" / "agents")
    deep = "/".join("abcdefgh"[: MAX_DEPTH + 1])
    places.write(
        {f".cursor/agents/{deep}/y.md": AGENT.format("y"), f".cursor/agents/{deep[2:]}/z.md": AGENT.format("z")}
    )
    assert [agent.name for agent in load_agents(places.folders()).agents] == ["z"]


def test_a_file_larger_than_a_rule_is_read_whole_and_so_is_what_its_trust_is_of(places):
    text = AGENT.format("a") + "word " * 10_000
    places.write({".claude/agents/a.md": text})
    seen = {}
    (agent,) = load_agents(places.folders(lambda path, data: bool(seen.update({path: data}) or True))).agents
    assert agent.prompt.count("word") == 10_000
    assert ProjectRoot(places.workspace).read_shown(".claude/agents/a.md") == seen[".claude/agents/a.md"]


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        (".claude/agents/a.md", True),
        ("web/.cursor/commands/x/y.md", True),
        (".agents/skills/pdf/SKILL.md", True),
        (".agents/skills/pdf/agents/x.md", False),
        (".agents/skills/pdf/run.py", False),
        (".claude/plugins/p/.claude-plugin/plugin.json", True),
        (".claude/plugins/p/commands/x.md", True),
        (".claude/plugins/p/README.md", False),
        ("agents/a.md", False),
        ("docs/.claude/x.md", False),
    ],
)
def test_paths_of_extensions_are_known_by_their_spelling(path, is_one):
    assert is_extension_path(path) is is_one
