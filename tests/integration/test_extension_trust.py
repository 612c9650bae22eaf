"""Files that extend the agent are trusted by their bytes, as rules are."""

from __future__ import annotations

import pytest

from core.extensions.agents import load_agent_definitions
from core.protocol import commands as cmd
from tests.support.agent_case import says
from tests.support.open_session import run_turn, session_in
from tests.support.story import access
from tests.support.trust import trust

AGENT = "---\nname: helper\ndescription: d\n---\n{}\n"
PLACES = (".claude/agents/deep/a.md", ".cursor/agents/a.md", ".agent-tui/plugins/p/agents/a.md")


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    for path in PLACES:
        (root / path).parent.mkdir(parents=True)
    manifest = root / ".agent-tui/plugins/p/.claude-plugin/plugin.json"
    manifest.parent.mkdir()
    manifest.write_text('{"name": "p"}')
    return root


def changed(engine):
    stated = engine._source.services.trust.build_question()
    return () if stated is None else stated.changed


def prompts(engine, project):
    services = engine._source.services
    check = services.trust.is_readable if services.trust.trusted else None
    return [agent.prompt for agent in load_agent_definitions(services.workspace, check).agents]


@pytest.mark.parametrize("path", PLACES)
async def test_n3_i1_an_extension_that_was_changed_from_outside_is_not_read_until_a_new_yes(project, path):
    (project / path).write_text(AGENT.format("First."))
    async with session_in(project, access([])) as (engine, session):
        assert prompts(engine, project) == []
    trust(project)
    async with session_in(project, access([])) as (engine, session):
        assert (changed(engine), prompts(engine, project)) == ((), ["First."])
    (project / path).write_text(AGENT.format("Second."))
    async with session_in(project, access([])) as (engine, session):
        assert (changed(engine), prompts(engine, project)) == ((path,), [])
        assert isinstance(await engine.submit(cmd.TrustSet(session=session, trusted=True)), cmd.Ack)
        assert (changed(engine), prompts(engine, project)) == ((), ["Second."])


async def test_n3_an_extension_that_comes_while_a_session_is_open_is_asked_about_once_it_is_read(project):
    trust(project)
    async with session_in(project, access([says("ok")])) as (engine, session):
        (project / PLACES[0]).write_text(AGENT.format("New."))
        assert prompts(engine, project) == []
        assert changed(engine) == (PLACES[0],)
        await run_turn(engine, session, cmd.TurnSubmit(session=session, text="hello"))
        assert engine.state(session).trust_state == "asked"
