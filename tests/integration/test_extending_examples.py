"""The examples of docs/rules-and-skills.md, used as they stand there."""

from __future__ import annotations

import re
import subprocess

import pytest

from core.extensions.agents import load_agents
from core.extensions.commands import load_commands
from core.extensions.plugins import find_extension_folders
from core.extensions.skills import load_skills
from core.workspace import Workspace
from tests.contract.source_tree import ROOT
from tests.support.program import environment, run
from tests.support.trust import trust

PAGE = (ROOT / "docs" / "rules-and-skills.md").read_text()
FILES = dict(
    re.findall(r"`(\.[\w./-]+)`(?:, called as `[^`\n]*`)?:\n\n```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
)
SHELL = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE.partition("## Commands")[2], re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    for name, text in {**FILES, "README.md": "# Shop\n", ".claude/skills/release/checklist.md": "- Tag\n"}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q", root], check=True)
    trust(root)
    return root


def test_every_file_is_read_without_a_word_of_complaint(project):
    places = find_extension_folders(Workspace(project), lambda *_: True)
    skills, commands, agents = load_skills(places.folders), load_commands(places.folders), load_agents(places.folders)
    extensions = (*skills.skills, *commands.commands, *agents.agents)
    assert sorted(extension.name for extension in extensions) == ["acme:deploy", "release", "reviewer", "summary"]
    assert len(FILES) == len(extensions) + 1
    assert [extension.problems for extension in (*extensions, *places.plugins.plugins)] == [()] * 5
    assert (*skills.skipped, *commands.skipped, *agents.skipped) == ()
    assert [plugin.name for plugin in places.plugins.plugins] == ["acme"]


async def test_every_line_for_the_shell_does_what_it_says(project):
    outputs = []
    for line in SHELL:
        ended = await run(project, *line.split()[1:], env=environment(None))
        assert (ended.code, ended.err) == (0, "")
        outputs.append(ended.out)
    listed, explained, checked = outputs
    assert "/summary [since]  [project command: .claude/commands/git/summary.md]" in listed
    assert "would run sandboxed, and its changes would be dropped: git log --oneline -5" in explained
    assert "done since HEAD~3, for somebody" in explained
    assert checked == "No problems.\n"
