"""`agent-tui serve` as a user starts it, what many conversations cost it, and requests that nobody would send."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import stat
from pathlib import Path

import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol.options import EngineOptions
from core.transports.engines import Engines
from core.transports.http.app import ALL_ROUTES, STREAMS, build_document
from tests.fuzz.http_requests import send_random
from tests.support.agent_case import says
from tests.support.http_server import CHAT, TOKENS, parse_stream, prompt, serving
from tests.support.program import PROGRAM, environment
from tests.support.story import access, project_at

CHECKS = [
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
    not_a_server_error,
]
HOLDS = {"Authorization": f"Bearer {TOKENS.read}"}
SCRIPT = "turns:\n  - steps:\n      - Hello there.\n"


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


async def curl(*arguments: str) -> str:
    run = await asyncio.create_subprocess_exec("curl", "-sN", *arguments, stdout=asyncio.subprocess.PIPE)
    out, _ = await run.communicate()
    return out.decode()


@pytest.mark.parametrize("where", ["port", "socket"])
async def test_n1_the_program_serves_says_where_once_and_ends_cleanly(project, tmp_path, where):
    script, tokens, at = tmp_path / "model.yaml", tmp_path / "tokens.json", tmp_path / "serve.sock"
    script.write_text(SCRIPT)
    place = ("--port", "0") if where == "port" else ("--socket", str(at))
    words = ("serve", str(project), *place, "--token-file", str(tokens))
    pipe = asyncio.subprocess.PIPE
    env = environment(None, AGENT_TUI_SCRIPT_SPEED="0")
    server = await asyncio.create_subprocess_exec(*PROGRAM, *words, env=env, stdout=pipe, stderr=pipe)
    assert server.stdout is not None
    assert server.stderr is not None
    announcement = (await server.stdout.readline()).decode().strip()
    held = json.loads(tokens.read_text())
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    if where == "port":
        url, _, token = announcement.partition("#")
        assert (url, token, url.startswith("http://127.0.0.1:")) == (held["url"], held["approve"], True)
        to = [url.rstrip("/") + CHAT]
    else:
        assert stat.S_IMODE(at.stat().st_mode) == 0o600
        to = ["--unix-socket", str(at), f"http://localhost{CHAT}"]
    body = json.dumps(prompt(model=f"scripted/{script}", stream=True))
    headers = ("-H", f"Authorization: Bearer {held['approve']}", "-H", "Content-Type: application/json")
    events = parse_stream(await curl("-d", body, *headers, *to))
    server.send_signal(signal.SIGTERM)
    rest, error_output = await server.communicate()
    assert [event.name for event in events][-2:] == ["done", ""]
    assert events[-3].data["finalContent"] == "Hello there."
    assert (server.returncode, rest, b"Traceback" in error_output) == (0, b"", False)
    assert not at.exists()


async def test_n11_no_command_of_the_agent_reaches_the_server_or_its_tokens(project, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    state = tmp_path / "state"
    command = f"cat {state}/serve/*; ls {state}; (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo reached; echo over"
    call = {"name": "run_terminal_cmd", "arguments": {"command": command}}
    script = tmp_path / "model.yaml"
    script.write_text(json.dumps({"turns": [{"steps": [{"tool_calls": [call]}, "Done."]}]}))
    env = environment(None, AGENT_TUI_SCRIPT_SPEED="0", AGENT_TUI_STATE_DIR=str(state))
    pipe = asyncio.subprocess.PIPE
    words = ("serve", str(project), "--port", str(port))
    server = await asyncio.create_subprocess_exec(*PROGRAM, *words, env=env, stdout=pipe)
    assert server.stdout is not None
    announcement = (await server.stdout.readline()).decode().strip()
    (held,) = (state / "serve").iterdir()
    body = json.dumps(prompt(model=f"scripted/{script}"))
    headers = ("-H", f"Authorization: Bearer {announcement.partition('#')[2]}", "-H", "Content-Type: application/json")
    whole = json.loads(await curl("-d", body, *headers, f"http://127.0.0.1:{port}{CHAT}"))
    server.send_signal(signal.SIGTERM)
    await server.wait()
    (ran,) = [document["metadata"] for document in whole["documents"] if document["type"] == "terminal_command"]
    assert "over" in ran["output"]
    assert [word for word in ("approve", "reached", "workspaces") if word in ran["output"]] == []
    assert not held.exists()


async def test_idle_sessions_are_closed_and_resumed_when_they_are_asked_for(project):
    models = access(*([says(f"Answer {number}.")] for number in range(6)))
    engines = Engines(
        EngineOptions(preload=False, watch=False),
        lambda at, options: Engine(at, options=options, models=models),
        most_open=2,
        least_idle=0,
    )
    engine = engines.get(project)
    assert isinstance(engine, Engine)
    opened = []
    for _ in range(6):
        _, ack = await engines.open(project, cmd.SessionOpen())
        await engine.submit(cmd.SessionRename(session=ack.session, title="Kept"))
        await engine.submit(cmd.DraftKeep(session=ack.session, text="so that it is not empty"))
        opened.append(ack.session)
    await engines.wait_closed()
    assert len(engine._sessions) == 2
    assert await engines.find(opened[0]) is engine
    assert engine.state(opened[0]).title == "Kept"
    with engines.hold(opened[0]):
        for session in opened[1:]:
            await engines.find(session)
        await engines.wait_closed()
        assert engine.state(opened[0]).draft == "so that it is not empty"
    await engines.close()


async def test_random_requests_meet_no_fault_of_ours(project):
    async with serving(project, access()) as served, served.client(TOKENS.approve) as client:
        statuses = await send_random(served, client, 500, seed=14)
    assert {200, 201, 400, 404} <= set(statuses)
    assert set(statuses) <= {200, 201, 202, 400, 403, 404, 409, 415}


def test_what_the_routes_answer_is_what_the_openapi_document_says(project):
    asyncio.run(_check_document(project))


async def _check_document(project: Path) -> None:
    document = build_document(ALL_ROUTES)
    schema = schemathesis.openapi.from_dict(document)
    async with serving(project, access(), has_page=True) as served:
        wrong = await asyncio.to_thread(_call_all, schema, served.url)
    assert wrong == []


def _call_all(schema: schemathesis.BaseSchema, url: str) -> list[str]:
    """Call each operation a few times with what fits its schema; return what was wrong."""
    import hypothesis

    wrong: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()

        @hypothesis.given(case=operation.as_strategy())
        @hypothesis.settings(max_examples=4, derandomize=True, deadline=None, database=None)
        def call(case: schemathesis.Case) -> None:
            stream = case.operation.definition.raw["operationId"] in STREAMS
            answer = case.call(
                base_url=url, headers={"Authorization": f"Bearer {TOKENS.read}"}, stream=stream, timeout=30
            )
            if not stream:
                case.validate_response(answer, checks=CHECKS)

        try:
            call()
        except (Exception, BaseExceptionGroup) as problem:
            wrong.append(f"{operation.method} {operation.path}: {problem}")
    return wrong
