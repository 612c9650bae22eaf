from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.engine.turns.agent_types import BUILTIN, find_agent_type, list_agent_types
from core.errors import ToolInputInvalid
from core.extensions.agents import AgentDefinition, load_agent_definitions
from core.tools.toolset import Toolset
from core.workspace import Workspace

TOOLS = Toolset()
DOCS = Path(__file__).parents[4] / "docs" / "rules-and-skills.md"


def define(name: str, **more: object) -> AgentDefinition:
    known = {"description": "d", "prompt": "p", "path": f"{name}.md", "scope": "project", "source": "claude"}
    return AgentDefinition(name=name, **{**known, **more})


@pytest.mark.parametrize("name", ["explore", "Explore", "EXPLORE", "general-purpose", "generalPurpose", "general"])
def test_names_of_other_agents_are_understood(name):
    assert find_agent_type(BUILTIN, name).name.lower() in {"explore", "generalpurpose"}


def test_the_users_own_takes_the_place_of_ours():
    types = list_agent_types([define("explore", description="mine")], TOOLS)
    assert [agent_type.description for agent_type in types if agent_type.name == "explore"] == ["mine"]
    assert len(types) == len(BUILTIN)


def test_tools_are_known_by_the_names_of_other_agents_and_unknown_ones_grant_nothing():
    definition = define("a", tools=("Read", "Bash", "Telepathy", "mcp__git__log"), disallowed_tools=("Write",))
    agent_type = list_agent_types([definition], TOOLS)[0]
    assert agent_type.tools == {"read_file", "run_terminal_cmd", "mcp__git__log"}
    assert agent_type.denied == {"write"}
    assert agent_type.problems == ("there is no tool 'Telepathy' here",)
    assert not agent_type.refusals


@pytest.mark.parametrize("tool", ["Bash(git *)", "Read(src/**)"])
def test_a_tool_with_a_pattern_keeps_it_from_starting(tool):
    types = list_agent_types([define("a", tools=(tool,))], TOOLS)
    with pytest.raises(ToolInputInvalid, match=re.escape(tool)):
        find_agent_type(types, "a")
    assert not list_agent_types([define("a", tools=("Bash(*)",))], TOOLS)[0].refusals


def test_one_that_is_not_there_gets_the_near_ones_named():
    with pytest.raises(ToolInputInvalid) as caught:
        find_agent_type(BUILTIN, "explorer")
    assert caught.value.hint == "Did you mean explore? There are: generalPurpose, explore, browser-use."


def test_the_example_of_the_page_is_an_agent(tmp_path):
    text = re.search(r"```markdown\n(---\nname: reviewer.*?)```", DOCS.read_text(), re.DOTALL)
    assert text is not None
    place = tmp_path / "project" / ".claude" / "agents"
    place.mkdir(parents=True)
    (place / "reviewer.md").write_text(text[1])
    definitions = load_agent_definitions(Workspace(tmp_path / "project"), lambda *_: True)
    [agent_type] = [
        candidate for candidate in list_agent_types(definitions.agents, TOOLS) if candidate.name == "reviewer"
    ]
    assert agent_type.tools == {"read_file", "grep", "glob_file_search"}
    assert (agent_type.model, agent_type.max_steps, agent_type.problems, agent_type.refusals) == ("fast", 20, (), ())
