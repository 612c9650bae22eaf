"""Hooks of the calls of tools that MCP servers offer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from core.protocol import events as ev
from core.protocol.messages import ToolMessage
from core.user_dirs import get_config_dir
from tests.integration.test_mcp_servers import SERVER, configure, script, small
from tests.support.box_tiers import offered
from tests.support.open_session import run_turn, session_in

pytestmark = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="hooks need a box")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    shutil.copy(SERVER, root / "server.py")
    return root


async def test_a_call_of_a_servers_tool_is_refused_by_a_hook_that_is_told_of_it(project, tmp_path):
    configure()
    hooks = {
        "beforeMCPExecution": [{"command": "cat >&2; exit 2"}],
        "preToolUse": [{"command": "cat > /dev/null", "matcher": "mcp__small__.*"}],
    }
    (get_config_dir() / "hooks.json").write_text(json.dumps({"version": 1, "hooks": hooks}))
    model = script(tmp_path, small("write", path="b.txt", text="x"), "Done.")
    async with session_in(project, model=model) as (engine, session):
        events = await run_turn(engine, session)
        ran = [(event.event, event.outcome) for event in events if isinstance(event, ev.HookRan)]
        (result,) = (message for message in engine.state(session).messages if isinstance(message, ToolMessage))
        assert ran == [("preToolUse", "passed"), ("beforeMCPExecution", "denied")]
        assert '"server":"small"' in result.content
        assert '"tool_name":"write"' in result.content
        assert json.dumps('{"path":"b.txt","text":"x"}') in result.content
        assert not engine.state(session).changes
