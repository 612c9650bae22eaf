"""How hosted agents are found, and how they are logged in without the user."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.config.settings import AgentServerSettings, Settings
from core.providers.hosted_agents import KNOWN_AGENTS, HostedAgent, find_agent

BROWSER = {"id": "chat-gpt", "name": "ChatGPT"}
API_KEY = {"id": "api-key", "name": "API Key", "_meta": {"api-key": {"provider": "openai"}}}
GEMINI = [{"id": "oauth-personal"}, {"id": "gemini-api-key"}, {"id": "vertex-ai"}, {"id": "gateway"}]


def by_variables(*names: str, optional: bool = False) -> dict[str, Any]:
    return {"id": "vars", "type": "env_var", "vars": [{"name": name, "optional": optional} for name in names]}


@pytest.mark.parametrize(
    ("agent", "methods", "variables", "way"),
    [
        ("codex", [API_KEY, BROWSER], ["OPENAI_API_KEY"], "api-key"),
        ("codex", [BROWSER, API_KEY], ["CODEX_API_KEY"], "api-key"),
        ("codex", [BROWSER, API_KEY], ["ANTHROPIC_API_KEY"], ""),
        ("codex", [BROWSER], ["OPENAI_API_KEY"], ""),
        ("codex", [BROWSER, by_variables("OPENAI_API_KEY")], ["OPENAI_API_KEY"], "vars"),
        ("codex", [by_variables("OPENAI_API_KEY", "OPENAI_BASE_URL")], ["OPENAI_API_KEY"], ""),
        ("codex", [{"id": "codex-api-key"}, {"id": "openai-api-key"}], ["OPENAI_API_KEY"], "openai-api-key"),
        ("gemini", GEMINI, ["GEMINI_API_KEY"], "gemini-api-key"),
        ("gemini", GEMINI, ["GOOGLE_API_KEY"], "vertex-ai"),
        ("gemini", GEMINI, [], ""),
        ("opencode", [{"id": "opencode-login"}], ["OPENAI_API_KEY"], ""),
        ("codex", [3, {"name": "no id"}, {"id": 4}, by_variables()], ["OPENAI_API_KEY"], ""),
    ],
)
def test_a_login_is_done_by_a_key_that_is_there_and_by_nothing_else(agent, methods, variables, way):
    assert KNOWN_AGENTS[agent].find_login(methods, dict.fromkeys(variables, "secret")) == way


def test_another_agent_is_logged_in_by_the_keys_that_it_is_given():
    agent = HostedAgent(name="mine", commands=(), env=("MINE_API_KEY", "HOME_PAGE"))
    assert agent.find_login([{"id": "api-key"}], {"MINE_API_KEY": "secret"}) == "api-key"
    assert agent.find_login([{"id": "api-key"}], {"HOME_PAGE": "x"}) == ""


@pytest.mark.parametrize(("line", "confines"), [("/opt/x/codex-acp --y", True), ("/opt/x/other --acp", False)])
def test_a_program_that_has_a_sandbox_of_its_own_is_known_wherever_it_lies(line, confines):
    assert find_agent(line, Settings()).confines_itself is confines
    own = Settings(agent_servers={"mine": AgentServerSettings(command=tuple(line.split()), mode="m")})
    agent = find_agent("mine", own)
    assert (agent.confines_itself, agent.mode) == (confines, "m")


def test_an_agent_that_asks_about_no_command_by_itself_is_told_to_ask_also_when_its_command_is_the_users():
    own = Settings(agent_servers={"opencode": AgentServerSettings(command=("/opt/opencode", "acp"))})
    for agent in (find_agent("opencode", Settings()), find_agent("opencode", own)):
        assert json.loads(agent.fixed["OPENCODE_PERMISSION"]) == {"bash": "ask"}
