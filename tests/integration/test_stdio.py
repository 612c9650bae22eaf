from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from core.arguments import ScreenArguments
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.client import EngineGone
from core.transports.stdio_client import build_command_line, connect
from tests.support.trust import trust

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, str(ROOT / "agent_tui.py"))


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("a\n")
    trust(root)
    return root


def options(project: Path) -> ScreenArguments:
    return ScreenArguments(directory=project, program=PROGRAM, model="scripted/none.yaml", mode="plan")


@pytest.fixture
async def client(project):
    stdio_client = await connect(options(project))
    yield stdio_client
    await stdio_client.close()


async def opened(client) -> str:
    reply = await client.submit(cmd.SessionOpen())
    assert isinstance(reply, cmd.Ack), reply
    return reply.session


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"  # an orphan may not be reaped


async def ended(descriptor: int) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, over.set)
    async with asyncio.timeout(40):
        await over.wait()
    asyncio.get_running_loop().remove_reader(descriptor)
    os.close(descriptor)


async def test_the_three_verbs_cross_the_pipe(client, project):
    session = await opened(client)
    stream = client.events(session)
    first = await anext(stream)
    assert isinstance(first.event, ev.SessionStarted)
    assert (first.event.mode, first.event.model) == ("plan", "scripted/none.yaml")
    assert isinstance(await client.submit(cmd.ModeSet(session=session, mode="ask")), cmd.Ack)
    events = (envelope.event async for envelope in stream if not isinstance(envelope.event, ev.BoxFound))
    assert await anext(events) == ev.ModeChanged(mode="ask")
    tree = await client.query(q.TreeQuery(session=session))
    assert [entry.name for entry in tree.entries] == ["a.txt"]
    rejected = await client.submit(cmd.TurnInterrupt(session=session))
    assert (rejected.code, rejected.message) == ("no_turn", "no turn is running.")
    await client.submit(cmd.SessionClose(session=session))
    assert [envelope.event async for envelope in stream] == []


async def test_a_line_of_many_megabytes_crosses_both_ways(client):
    session = await opened(client)
    text = "x" * 5_000_000
    reply = await client.submit(cmd.TurnSubmit(session=session, text=text))
    assert reply.code == "text_too_long"
    rejected = await client.submit(cmd.HunkResolve(session=session, path=text, verdict="accept"))
    assert text in rejected.message


async def test_an_engine_that_is_killed_is_reported_with_its_last_words(project):
    client = await connect(options(project))
    session = await opened(client)
    stream = client.events(session)
    await anext(stream)
    os.kill(client.pid, signal.SIGKILL)
    with pytest.raises(EngineGone):
        await anext(stream)
    with pytest.raises(EngineGone):
        await client.submit(cmd.ModeSet(session=session, mode="ask"))
    await client.close()
    again = await connect(options(project))
    assert isinstance(await again.submit(cmd.SessionResume(session=session)), cmd.Ack)
    await again.close()


async def test_a_program_that_is_no_engine_says_why(project):
    broken = (sys.executable, "-c", "import sys; sys.exit('no engine here')")
    client = await connect(ScreenArguments(directory=project, program=broken))
    with pytest.raises(EngineGone) as lost:
        await client.submit(cmd.SessionOpen())
    assert "no engine here" in lost.value.detail
    await client.close()
    with pytest.raises(EngineGone, match="can't be started"):
        await connect(ScreenArguments(directory=project, program=("/nowhere/python",)))


async def test_an_engine_whose_input_is_closed_before_it_is_asked_says_why(project):
    broken = (sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit('no engine here')")
    client = await connect(ScreenArguments(directory=project, program=broken))
    client._process.stdin.close()
    with pytest.raises(EngineGone) as lost:
        await client.submit(cmd.SessionOpen())
    assert "no engine here" in lost.value.detail
    with pytest.raises(EngineGone, match="no engine here"):
        await anext(client.events("s"))
    await client.close()


async def test_the_engine_ignores_the_terminals_signals_and_ends_with_its_client(project):
    client = await connect(options(project))
    session = await opened(client)
    for number in (signal.SIGINT, signal.SIGHUP):
        os.kill(client.pid, number)
    assert isinstance(await client.query(q.TreeQuery(session=session)), q.TreeAnswer)
    assert os.getsid(client.pid) == client.pid
    await client.close()
    assert not alive(client.pid)


async def test_the_engine_ends_when_its_client_is_killed(project):
    code = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from core.arguments import ScreenArguments
from core.protocol import commands as cmd
from core.transports.stdio_client import connect

async def main():
    client = await connect(ScreenArguments(directory=Path({str(project)!r}), program={PROGRAM!r}))
    await client.submit(cmd.SessionOpen())
    print(client.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    engine = int(await host.stdout.readline())
    assert alive(engine)
    watching = os.pidfd_open(engine)
    host.kill()
    await host.wait()
    await ended(watching)
    assert not alive(engine)


async def test_what_is_no_line_of_the_protocol_is_answered_and_the_engine_goes_on(project):
    process = await asyncio.create_subprocess_exec(
        *build_command_line(options(project)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    lines = [b"\xff junk\n", b'{"id":1,"submit":{"type":"no.such"}}\n', b'{"id":2,"query":{"type":"tree"}}\n']
    lines.append(b'{"id":3,"subscribe":{"session":"ses_x"}}\n')
    process.stdin.writelines(lines)
    replies = [json.loads(await process.stdout.readline()) for _ in lines]
    by_id = {reply["id"]: reply for reply in replies}
    assert by_id[0]["reply"]["code"] == "line_invalid"
    assert by_id[1]["reply"]["code"] == "command_invalid"
    assert by_id[2]["answer"]["type"] == "tree"
    assert by_id[3]["reply"]["code"] == "subscription_ended"
    process.stdin.close()
    assert await process.wait() == 0
