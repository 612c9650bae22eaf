"""However a run ends, its standard error holds no traceback and no complaint of asyncio or the interpreter."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import signal
import warnings
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from benchmarks.terminal import Terminal
from core.arguments import ScreenArguments
from core.background.control import start_agent
from core.background.locations import make_agents_dir
from core.background.records import AgentRequest
from core.background.sqlite_store import SqliteStore
from core.transports.stdio_client import connect
from tests.support.background import opened, wait_for
from tests.support.http_server import CHAT, prompt
from tests.support.program import PROGRAM, environment
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Step
from tests.support.story import project_at

SCRIPT = (
    "turns:\n  - steps:\n      - delay_ms: 100\n        text: It goes on, " + "word by word, " * 200 + "to its end.\n"
)
NOISE = re.compile(
    r"Traceback|never retrieved|never awaited|was destroyed|Exception ignored|BrokenPipe|ResourceWarning|unclosed"
    r"|_call_connection_lost|Error in sys\.excepthook|lost sys\.stderr"
)
ORDINARY: Mapping[str, str] = {}
DEBUGGED = {"PYTHONDEVMODE": "1", "PYTHONASYNCIODEBUG": "1"}  # what is left open is told only so
PATIENCE = 60  # seconds
PIPE = asyncio.subprocess.PIPE

with_and_without_debugging = pytest.mark.parametrize("debugging", [ORDINARY, DEBUGGED], ids=["ordinary", "debugged"])


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


@pytest.fixture
def model(tmp_path) -> str:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return f"scripted/{tmp_path / 'script.yaml'}"


async def start(project: Path, *words: str, env: Mapping[str, str]) -> asyncio.subprocess.Process:
    stdin = asyncio.subprocess.DEVNULL if "-p" in words else PIPE  # a prompt would wait for the end of its input
    return await asyncio.create_subprocess_exec(
        *PROGRAM, *words, cwd=project, env=dict(env), stdin=stdin, stdout=PIPE, stderr=PIPE
    )


async def wait_for_output(process: asyncio.subprocess.Process, text: bytes) -> None:
    """Read the output of a process up to the line that holds a text."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        while text not in (line := await process.stdout.readline()):
            assert line, f"the output ended without {text!r}"


async def check_quiet(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process; its standard error holds no noise."""
    async with asyncio.timeout(PATIENCE):
        _, stderr = await process.communicate()
    assert_quiet(stderr)


def assert_quiet(output: bytes) -> None:
    text = output.decode(errors="replace")
    assert not NOISE.search(text), text


def printing(model: str) -> tuple[str, ...]:
    return ("-p", "Do it", "--model", model, "--output-format", "stream-json")


@with_and_without_debugging
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_n43_a_signal_during_a_turn_ends_a_printed_run_quietly(project, model, number, debugging):
    process = await start(project, *printing(model), env=environment(None, **debugging))
    await wait_for_output(process, b"document.delta")
    process.send_signal(number)
    await check_quiet(process)


@with_and_without_debugging
@pytest.mark.parametrize(
    "ending",
    ["| head -1", "2>&- | head -1", ">&-", "2>&-", ">&- 2>&-", "<&- | head -1"],
)
async def test_n43_streams_that_are_closed_end_a_printed_run_quietly(project, model, ending, debugging):
    command = " ".join(f"'{word}'" for word in (*PROGRAM, *printing(model)))
    env = environment(None, **debugging, AGENT_TUI_SCRIPT_SPEED="100")
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", f"{command} {ending}", cwd=project, env=env, stdout=PIPE, stderr=PIPE
    )
    await check_quiet(process)


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_n43_a_server_that_hangs_up_in_its_answer_ends_a_printed_run_quietly(project, dialect):
    async with provider_server([Step(text="word by word, " * 40, cut="text"), "It is whole."]) as server:
        env = environment(server, **DEBUGGED)
        process = await start(project, "-p", "Do it", "--model", f"{dialect}/tiny-1", env=env)
        await check_quiet(process)
        assert len(server.answered) == 2


@with_and_without_debugging
async def test_n43_a_signal_while_a_real_server_answers_ends_a_printed_run_quietly(project, debugging):
    async with provider_server([Step(text="A long answer that hangs.", hang="text")]) as server:
        process = await start(project, "-p", "Do it", "--model", "openai/tiny-1", env=environment(server, **debugging))
        async with asyncio.timeout(PATIENCE):
            await server.hanging.wait()
        process.send_signal(signal.SIGTERM)
        await check_quiet(process)


@with_and_without_debugging
@pytest.mark.parametrize("ending", ["signal", "input", "output"])
async def test_n43_an_engine_ends_quietly_with_its_client(project, model, ending, debugging):
    process = await start(project, "--engine", str(project), "--model", model, env=environment(None, **debugging))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"id":1,"submit":{"type":"session.open"}}\n')
    line = json.loads(await process.stdout.readline())
    session = line["reply"]["session"]
    process.stdin.write(json.dumps({"id": 2, "subscribe": {"session": session, "after": 0}}).encode() + b"\n")
    message = {"type": "turn.submit", "session": session, "text": "Do it"}
    process.stdin.write(json.dumps({"id": 3, "submit": message}).encode() + b"\n")
    await wait_for_output(process, b"document.delta")
    if ending == "signal":
        process.send_signal(signal.SIGTERM)
    elif ending == "output":
        process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
    process.stdin.close()
    await check_quiet(process)


async def test_n43_a_server_ends_quietly_with_an_open_stream(project, model, tmp_path):
    tokens = tmp_path / "tokens.json"
    words = ("serve", str(project), "--port", "0", "--token-file", str(tokens))
    process = await start(project, *words, env=environment(None, **DEBUGGED))
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip().partition("#")[0]
    headers = ("-H", f"Authorization: Bearer {json.loads(tokens.read_text())['approve']}")
    body = json.dumps(prompt(model=model, stream=True))
    words = ("curl", "-sN", "-d", body, *headers, "-H", "Content-Type: application/json", url.rstrip("/") + CHAT)
    client = await asyncio.create_subprocess_exec(*words, stdout=PIPE)
    await wait_for_output(client, b"goes")
    process.send_signal(signal.SIGTERM)
    await check_quiet(process)
    await client.communicate()


@pytest.mark.parametrize("rounds", [1, 2, 3])
async def test_n43_a_start_of_the_engine_that_is_cancelled_leaves_nothing_open(project, model, rounds):
    options = ScreenArguments(directory=project, program=PROGRAM, model=model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # what other tests have left open is not this one's
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        connecting = asyncio.create_task(connect(options))
        for _ in range(rounds):
            await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.wait({connecting})
        assert connecting.cancelled()
        del connecting
        await asyncio.sleep(0)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def call(number: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


@with_and_without_debugging
async def test_n43_an_agent_of_an_editor_ends_quietly_in_the_middle_of_a_prompt(project, model, debugging):
    process = await start(project, "acp", "--model", model, env=environment(None, **debugging))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(call(1, "initialize", protocolVersion=1, clientCapabilities={}))
    await wait_for_output(process, b'"id":1')
    process.stdin.write(call(2, "session/new", cwd=str(project), mcpServers=[]))
    while (opened := json.loads(await process.stdout.readline())).get("id") != 2:
        pass
    text = [{"type": "text", "text": "Do it"}]
    process.stdin.write(call(3, "session/prompt", sessionId=opened["result"]["sessionId"], prompt=text))
    await wait_for_output(process, b"agent_message_chunk")
    process.stdin.close()
    await check_quiet(process)


@with_and_without_debugging
async def test_n43_a_tool_server_ends_quietly_with_its_input(project, debugging):
    process = await start(project, "mcp", "serve", str(project), env=environment(None, **debugging))
    assert process.stdin is not None
    client = {"name": "test", "version": "1"}
    process.stdin.write(call(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client))
    await wait_for_output(process, b'"id":1')
    process.stdin.close()
    await check_quiet(process)


@pytest.mark.parametrize("source", ["/dev/null", "/dev/zero", "a.txt"])
@with_and_without_debugging
async def test_n43_an_agent_of_an_editor_refuses_what_is_no_pipe(project, source, debugging):
    (project / "a.txt").write_text("a\n")
    with (project / source).open("rb") as file:
        process = await asyncio.create_subprocess_exec(
            *(*PROGRAM, "acp"), cwd=project, env=environment(None, **debugging), stdin=file, stdout=PIPE, stderr=PIPE
        )
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert b"pipes" in errors
    assert not NOISE.search(errors.decode())


@with_and_without_debugging
async def test_n43_a_worker_that_is_told_to_end_ends_quietly(project, model, debugging):
    async with opened(SqliteStore(make_agents_dir())) as store:
        request = AgentRequest(task_description="Do it", workspace_path=str(project), model=model)
        await start_agent(store, request, ())
        process = await start(project, "agents", "worker", env=environment(None, **debugging))
        await wait_for(store, lambda agents: agents[0].state == "running")
        process.send_signal(signal.SIGTERM)
        await check_quiet(process)


def read_end(terminal: Terminal, answer: bytes) -> bytes:
    """Return what the program writes until it has ended. `answer` is pressed as long as it runs, since a dialog takes
    no key until none has come for a moment."""
    start = len(terminal.output)
    while terminal.process.status() != psutil.STATUS_ZOMBIE:
        terminal.drain(0.8 if answer else 0.1)
        terminal.write(answer)
    while terminal.read(0.1):
        pass
    return bytes(terminal.output[start:])


@pytest.mark.parametrize("moment", ["idle", "turn"])
@pytest.mark.parametrize("ending", ["key", "hangup", "engine"])
def test_n43_the_screen_ends_quietly(project, model, moment, ending):
    command = [*PROGRAM, str(project), "--model", model]
    with Terminal(command, env=environment(None, **DEBUGGED)) as terminal:
        terminal.wait_for(b"Ask for a change")
        if moment == "turn":
            terminal.send("Do it")
            terminal.wait_for(b"word by")
        terminal.wait_for(lambda _: bool(terminal.process.children()))
        if ending == "engine":
            terminal.process.children()[0].kill()
            terminal.wait_for(b"interrupted turn was closed" if moment == "turn" else b"engine")
        if ending == "hangup":
            terminal.signal(signal.SIGHUP)
        else:
            terminal.write(b"\x11")
        assert_quiet(read_end(terminal, b"y" if (ending, moment) == ("key", "turn") else b""))
