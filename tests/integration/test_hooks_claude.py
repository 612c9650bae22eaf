"""Events that Claude Code's hooks know and Cursor's do not: a question to the user, and the end of a compaction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.hooks import session_hooks
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import ToolMessage, Usage, UserMessage
from tests.integration.test_hooks_table import until_hook
from tests.support.agent_case import calls, says
from tests.support.box_tiers import offered
from tests.support.configured import ASKS, configured
from tests.support.open_session import compact, run_turn, session_in
from tests.support.story import access
from tests.support.trust import make_trusted, trust

pytestmark = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="hooks need a box")
RUN = calls(("run_terminal_cmd", {"command": "touch made"}))


@pytest.fixture
def project(tmp_path) -> Path:
    return make_trusted(tmp_path / "project")


def write_settings(project: Path, event: str, script: str, **more: Any) -> None:
    (project / ".claude").mkdir()
    entry = {**more, "hooks": [{"type": "command", "command": script}]}
    (project / ".claude" / "settings.json").write_text(json.dumps({"hooks": {event: [entry]}}))
    trust(project)


def decide(**decision: Any) -> str:
    output = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    return f"echo '{json.dumps(output)}'"


async def test_a_hook_refuses_in_place_of_the_user_and_they_are_not_asked(project):
    configured(ASKS)
    script = decide(behavior="deny", message="not on a Friday")
    write_settings(project, "PermissionRequest", script, matcher="Bash")
    async with session_in(project, access([RUN, says("So.")]), interactive=False) as (engine, session):
        events = await run_turn(engine, session)
        [result] = [message.content for message in engine.state(session).messages if isinstance(message, ToolMessage)]
    assert "not on a Friday" in result
    assert not [event for event in events if isinstance(event, ev.ApprovalRequested)]
    assert [event.outcome for event in events if isinstance(event, ev.HookRan)] == ["denied"]


async def test_a_hook_that_refuses_a_question_with_an_interrupt_ends_the_turn(project):
    configured(ASKS)
    write_settings(project, "PermissionRequest", decide(behavior="deny", message="no", interrupt=True))
    async with session_in(project, access([RUN, says("Never said.")]), interactive=False) as (engine, session):
        events = await run_turn(engine, session)
        assert "Never said." not in str(engine.state(session).messages)
    assert not [event for event in events if isinstance(event, ev.ApprovalRequested)]


async def test_m1_a_hook_that_allows_what_is_asked_about_says_yes_for_nobody(project):
    configured(ASKS)
    script = f"cat > seen.json; {decide(behavior='allow', updatedInput={'command': 'touch other'})}"
    write_settings(project, "PermissionRequest", script)
    async with session_in(project, access([RUN, says("So.")]), interactive=False) as (engine, session):
        events = await run_turn(engine, session)
        assert set(engine.state(session).changes) == {"seen.json"}
        payload = json.loads(engine.terminal(session).host.shadow.read("seen.json", 10_000) or b"")
    [asked] = [event for event in events if isinstance(event, ev.ApprovalRequested)]
    assert asked.subject == "touch made"
    assert (payload["hook_event_name"], payload["tool_name"]) == ("PermissionRequest", "Bash")
    assert payload["tool_input"]["command"] == "touch made"


async def test_what_hooks_say_when_a_session_begins_is_said_again_after_a_compaction(project):
    configured("[context]\nwindow = 100_000\n")
    script = """python3 -c 'import json,sys; print("Mind the gap:", json.load(sys.stdin)["source"])'"""
    write_settings(project, "SessionStart", script, matcher="startup|clear|compact")
    steps = [says("A long story. " * 8_000), says("Brief.", usage=Usage(prompt_tokens=60_000)), says("Notes.")]
    async with session_in(project, access(steps)) as (engine, session):
        for _ in range(2):
            await run_turn(engine, session)
        await until_hook(engine, session, "sessionStart", after=await compact(engine, session))
        await run_turn(engine, session, cmd.TurnSubmit(session=session, text="Go on"))
        user_text = "\n".join(
            message.content for message in engine.state(session).messages if isinstance(message, UserMessage)
        )
    assert "Mind the gap: startup" not in user_text
    assert user_text.count("Mind the gap: compact") == 1


async def test_a_hook_that_is_waited_for_is_named_while_it_is(project, monkeypatch):
    monkeypatch.setattr(session_hooks, "SLOW", 0.0)
    write_settings(project, "UserPromptSubmit", "cat > /dev/null")
    async with session_in(project, access([says("So."), says("So.")])) as (engine, session):
        events = [*await run_turn(engine, session), *await run_turn(engine, session)]
    notice_text = "Waiting for the hook beforeSubmitPrompt: cat > /dev/null, at most 30 s."
    kinds = [event for event in events if isinstance(event, ev.HookRan | ev.Notice)]
    assert [event.message for event in kinds if isinstance(event, ev.Notice)] == [notice_text]
    assert isinstance(kinds[0], ev.Notice)
