"""The examples of docs/agents.md, used as they stand there."""

from __future__ import annotations

import json
import re
import shlex

from core.cli.arguments import parse
from tests.contract.source_tree import ROOT
from tests.support.program import environment, run
from tests.support.story import project_at

PAGE = (ROOT / "docs" / "agents.md").read_text()
TILL = "RATE = 0.2\n\n\ndef gross(price):\n    return price * (1 + RATE)\n\n\ndef show(price):\n    return str(price)\n"
LINES = re.findall(r"^agent-tui (.+ --best .+|review --take .+)$", PAGE, re.MULTILINE)


def test_a_line_for_the_shell_is_understood():
    tried, taken = (parse(shlex.split(line)) for line in LINES)
    assert (tried.prompt, tried.best) == ("Round the prices to cents", ("", "", ""))
    assert (taken.front, taken.take) == ("review", 2)


async def test_the_session_of_the_picture_plays_to_its_end(tmp_path):
    project = project_at(tmp_path / "project")
    (project / "till.py").write_text(TILL)
    (project / "check.py").write_text("print('shown')\n")
    model = f"scripted/{ROOT / 'docs' / 'dev' / 'tools' / 'tasks-session.yaml'}"
    words = ("-p", "Show prices in euros, and document it", "--model", model, "--output-format", "json")
    ended = await run(project, *words, env=environment(None, AGENT_TUI_SCRIPT_SPEED="0"))
    assert ended.code == 0, ended.err
    response = json.loads(ended.out)
    assert {change["path"] for change in response["metadata"]["pendingChanges"]} == {"till.py", "README.md"}
    tasks = [document["metadata"] for document in response["documents"] if document["type"] == "tool_call"]
    assert [task["toolName"] for task in tasks] == ["task"] * 3
    assert "till.py:9" in tasks[0]["result"]["data"]


async def test_a_candidate_that_changed_nothing_can_not_be_taken(tmp_path):
    project = project_at(tmp_path / "project")
    script = tmp_path / "idle.yaml"
    script.write_text("turns: [{repeat: true, steps: [There is nothing to do.]}]\n")
    words = ("-p", "Round the prices", "--model", f"scripted/{script}", "--best", "2")
    ended = await run(project, *words, env=environment(None))
    assert ended.code == 0, ended.err
    taken = await run(project, "review", "--take", "2", env=environment(None))
    assert (taken.code, "candidate 2 changed nothing." in taken.err) == (1, True), taken.err
