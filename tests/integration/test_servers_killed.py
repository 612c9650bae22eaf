"""An engine that is killed leaves no process of a server: neither the server, nor what it forked, nor its box."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.arguments import ScreenArguments
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.transports.stdio_client import StdioClient, connect
from core.user_dirs import get_config_dir
from tests.support.box_tiers import offered
from tests.support.processes import list_processes

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests" / "support" / "mcp_server.py"
KILLS = int(os.environ.get("AGENT_TUI_KILLS", "3"))
PATIENCE = 60.0
MOMENTS = (("starts", ev.ToolRequested, 1), ("is idle", ev.ToolFinished, 1), ("is called", ev.ToolRequested, 2))
pytestmark = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="servers need a box")


def wait_for_end(pids: list[int]) -> None:
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([process], [], [], PATIENCE)[0], f"{pid} still runs"
        finally:
            os.close(process)


def write_project(root: Path) -> tuple[Path, str]:
    project = root / "project"
    project.mkdir()
    shutil.copy(SERVER, project / "server.py")
    place = get_config_dir()
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text('[commands]\npolicy = "auto"\n')
    entry = {"command": "python3", "args": ["${workspaceFolder}/server.py"]}
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}))
    calls: list[dict[str, Any]] = [
        {"name": "call_tool", "arguments": {"name": "mcp__small__misbehave", "arguments": json.dumps({"how": how})}}
        for how in ("orphan", "hang")
    ]
    (root / "script.json").write_text(json.dumps([{"tool_calls": [call]} for call in calls]))
    return project, f"scripted/{root / 'script.json'}"


async def run_until(client: StdioClient, session: str, kind: type, count: int) -> None:
    await client.submit(cmd.TurnSubmit(session=session, text="Go"))
    async for envelope in client.events(session):
        assert not isinstance(envelope.event, ev.TurnFinished), envelope.event
        count -= isinstance(envelope.event, kind)
        if not count:
            return


@pytest.mark.timeout(900)
async def test_s9_an_engine_that_is_killed_leaves_no_process_of_a_server(tmp_path):
    project, model = write_project(tmp_path)
    program = (sys.executable, str(ROOT / "agent_tui.py"))
    seen, orphans = 0, set[int]()
    for number in range(4 * KILLS):
        if number >= KILLS and orphans:
            break
        _, kind, count = MOMENTS[number % len(MOMENTS)]
        client = await connect(ScreenArguments(directory=project, model=model, trust=True, program=program))
        opened = await client.submit(cmd.SessionOpen())
        assert isinstance(opened, cmd.Ack), opened
        await run_until(client, opened.session, kind, count)
        below = [child.pid for child in psutil.Process(client.pid).children(recursive=True)]
        servers = list_processes(str(project / "server.py"))
        seen += bool(servers)
        orphans |= {*below} & {*list_processes("4711.25")}
        os.kill(client.pid, signal.SIGKILL)
        await client.close()
        wait_for_end([*below, *servers])
        while left := list_processes(str(project / "server.py")):  # what began between the look and the kill
            wait_for_end(left)
    assert orphans
    assert seen >= KILLS * 2 // 3
