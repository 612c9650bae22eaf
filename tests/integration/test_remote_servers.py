"""Remote MCP servers through the real engine: what is sent where, who is asked, and what their faults are called."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import Any

import pytest

from core.mcp import server as server_module
from core.mcp import session_servers
from core.mcp.session_servers import SessionServers
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.documents import QuestionAnswer
from core.user_dirs import get_config_dir
from tests.integration.test_mcp_servers import answer_question, results, script, told
from tests.support.mcp_http import serving
from tests.support.open_session import read_until, run_turn, session_in

COUNTED = ["1/2 counting\n", "2/2 counting\n"]


def far(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "call_tool", {"name": f"mcp__far__{tool}", "arguments": json.dumps(arguments)}


def configure(url: str, rules: str = 'allow = ["Mcp(far:*)"]', **more: Any) -> None:
    place = get_config_dir()
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.toml").write_text(f'[commands]\npolicy = "auto"\n[permissions]\n{rules}\n')
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {"far": {"url": url, **more}}}))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, in which a prompt waits for the servers however busy the machine is."""
    monkeypatch.setattr(session_servers, "FIRST_WAIT", 50.0)
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    return root


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_tools_of_a_remote_server_are_called_with_the_headers_of_its_entry(tmp_path, project, kind, monkeypatch):
    monkeypatch.setenv("FAR_TOKEN", "token-of-the-user")
    async with serving(is_sse=kind == "sse") as server:
        configure(server.url, type=kind, headers={"X-Token": "Key ${FAR_TOKEN}"})
        model = script(tmp_path, far("say", text="hi"), far("count", to=2), "Done.")
        async with session_in(project, model=model, trust=True) as (engine, session):
            seen = await run_turn(engine, session)
            assert [result.content for result in results(engine, session)] == ["hi", "counted to 2"]
            assert [output.text for output in seen if isinstance(output, ev.ToolOutput)] == COUNTED
            assert engine.state(session).foreign_sources == {"127.0.0.1": None}
    assert {headers.get("x-token") for _, _, headers in server.requests} == {"Key token-of-the-user"}


async def test_each_call_is_asked_about_with_the_host_that_it_goes_to_even_where_commands_run_unasked(
    tmp_path, project
):
    async with serving() as server:
        configure(server.url, rules="")
        model = script(tmp_path, far("say", text="hi"), "Done.")
        async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
            assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
            asked = (await read_until(engine, session, ev.ApprovalRequested))[-1]
            assert (asked.subject, asked.reason) == (
                "far:say",
                "It connects to 127.0.0.1, where it is not sandboxed.",
            )
            answer = cmd.ApprovalAnswer(session=session, id=asked.id, decision="reject_once")
            assert isinstance(await engine.submit(answer), cmd.Ack)
            await read_until(engine, session, ev.TurnFinished)
            assert results(engine, session)[0].is_error
    assert not [body for body in server.bodies if b"tools/call" in body]


async def test_a_rule_about_its_host_denies_a_remote_server(tmp_path, project):
    async with serving() as server:
        configure(server.url, rules='allow = ["Mcp(far:*)"]\ndeny = ["WebFetch(127.0.0.1)"]')
        async with session_in(project, model=script(tmp_path, far("say", text="hi"), "."), trust=True) as (
            engine,
            session,
        ):
            await run_turn(engine, session)
            assert "A rule denies 127.0.0.1" in results(engine, session)[0].content


async def test_i11_a_remote_server_of_the_project_on_this_machine_is_reached_after_a_yes_to_its_address(
    tmp_path, project
):
    async with serving() as server:
        configure(server.url)
        (get_config_dir() / "mcp.json").rename(project / ".mcp.json")
        async with session_in(
            project, model=script(tmp_path, far("say", text="hi"), "."), trust=True, interactive=True
        ) as (engine, session):
            assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
            asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
            assert server.url in asked.questions[0].text
            assert "can't be sandboxed" in asked.questions[0].text
            assert server.requests == []
            await answer_question(engine, session, asked, "yes")
            await read_until(engine, session, ev.TurnFinished)
            assert results(engine, session)[0].content == "hi"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "127.0.0.1 requires a login (401): agent-tui mcp login far."),
        (403, "127.0.0.1 refused: this login is not allowed to do that (403)."),
        (404, "127.0.0.1 has no server at this address (404)."),
        (418, "127.0.0.1 returned an error (418)."),
    ],
)
async def test_a_status_is_told_in_words_and_not_tried_again(tmp_path, project, status, said):
    async with serving() as server:
        configure(server.url)
        server.faults = [(b"", status)] * 8
        async with session_in(project, model=script(tmp_path, "Done.", "Done."), trust=True) as (engine, session):
            await run_turn(engine, session)
            asked = len(server.requests)
            await run_turn(engine, session)
            assert told(engine, session).count(f"far failed: {said}") == 1
            assert len(server.requests) == asked


async def test_a_server_that_is_busy_is_tried_again_and_one_that_is_gone_is_told(tmp_path, project, monkeypatch):
    monkeypatch.setattr(server_module, "RETRY_WAITS", (0.0, 0.0))
    monkeypatch.setattr(server_module, "BACKOFF_SECONDS", (0.0, 0.0))
    async with serving() as server:
        configure(server.url)
        server.faults = [(b"", 503)] * 2
        model = script(tmp_path, far("say", text="hi"), "Done.", "Done.")
        async with session_in(project, model=model, trust=True) as (engine, session):
            await run_turn(engine, session)
            assert results(engine, session)[0].content == "hi"
    port, other = server.port, tmp_path / "other"
    other.mkdir()
    configure(f"http://127.0.0.1:{port}/mcp2")
    called = {"tool_calls": [dict(zip(("name", "arguments"), far("say", text="back"), strict=True))]}
    turns = [{"steps": [{"text": "Done."}]}, {"steps": [called, {"text": "Done."}]}]
    (other / "script.json").write_text(json.dumps({"turns": turns}))
    model = f"scripted/{other / 'script.json'}"
    async with session_in(project, model=model, trust=True) as (engine, session):
        await run_turn(engine, session)
        assert "far failed: 127.0.0.1 can't be reached" in told(engine, session)
        async with serving(port=port, path="/mcp2"):
            await run_turn(engine, session)
            assert results(engine, session)[0].content == "back"


async def test_a_call_that_was_not_taken_is_repeated_over_a_new_connection(tmp_path, project):
    async with serving() as server:
        configure(server.url)
        server.faults = [(b"tools/call", 404)]
        async with session_in(project, model=script(tmp_path, far("say", text="hi"), "."), trust=True) as (
            engine,
            session,
        ):
            await run_turn(engine, session)
            assert results(engine, session)[0].content == "hi"
    assert sum(b"tools/call" in body for body in server.bodies) == 2


async def test_a_call_that_may_have_been_taken_is_not_repeated(tmp_path, project):
    async with serving() as server:
        configure(server.url)
        server.faults = [(b"tools/call", 502)]
        model = script(tmp_path, far("say", text="hi"), far("say", text="again"), "Done.")
        async with session_in(project, model=model, trust=True) as (engine, session):
            await run_turn(engine, session)
            failed, reply = results(engine, session)
            assert "far failed: 127.0.0.1 returned an error (502)" in failed.content
            assert reply.content == "again"
    assert sum(b"tools/call" in body for body in server.bodies) == 2


async def test_a_certificate_that_nobody_vouches_for_ends_the_connection(tmp_path, project):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    what = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout {key} -out {certificate}"
    process = await asyncio.create_subprocess_exec("openssl", *what.split(), "-subj", "/CN=localhost", stderr=DEVNULL)
    assert await process.wait() == 0
    async with serving(ssl_keyfile=str(key), ssl_certfile=str(certificate)) as server:
        configure(server.url)
        async with session_in(project, model=script(tmp_path, "Done."), trust=True) as (engine, session):
            await run_turn(engine, session)
            assert "far failed: The connection to 127.0.0.1 can't be trusted" in told(engine, session)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"url": "ftp://example.org/"}, "does not begin with http"),
        ({"url": "https://user:word@example.org/"}, "it contains a user name"),
        ({"url": "https://example.org/", "headers": {"X": "a\nb"}}, "its header 'X' is invalid"),
        ({"url": "https://example.org/", "headers": {"Host": "other"}}, "its header 'Host' can't be set"),
        ({"url": "https://${NOWHERE_SET}/"}, "the variable NOWHERE_SET is not set"),
    ],
)
async def test_an_entry_that_can_not_be_used_says_why(tmp_path, project, entry, said):
    configure(**entry)
    async with session_in(project, model=script(tmp_path, "Done."), trust=True) as (engine, session):
        await run_turn(engine, session)
        assert said in told(engine, session)


async def test_a_server_asks_the_user_in_the_middle_of_a_call(tmp_path, project):
    async with serving() as server:
        configure(server.url)
        async with session_in(project, model=script(tmp_path, far("paint"), "."), trust=True, interactive=True) as (
            engine,
            session,
        ):
            assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
            asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
            assert asked.title == "The MCP server far asks"
            answers = (
                QuestionAnswer(question="name", options=("choice:0",)),
                QuestionAnswer(question="count", text="3"),
                QuestionAnswer(question="is_bright", options=("choice:1",)),
            )
            reply = await engine.submit(cmd.QuestionReply(session=session, id=asked.id, answers=answers))
            assert isinstance(reply, cmd.Ack), reply
            await read_until(engine, session, ev.TurnFinished)
            assert results(engine, session)[0].content == 'accept {"name":"red","count":3,"is_bright":false}'


async def test_a_server_that_asks_where_nobody_is_there_is_told_so(tmp_path, project):
    async with serving() as server:
        configure(server.url)
        async with session_in(project, model=script(tmp_path, far("paint"), "."), trust=True, interactive=False) as (
            engine,
            session,
        ):
            await run_turn(engine, session)
            assert results(engine, session)[0].content == "cancel"


async def test_a_changed_list_of_a_server_of_today_is_heard_of(tmp_path, project, monkeypatch):
    heard = asyncio.Event()
    note = SessionServers.mark_stale

    def hear(servers: SessionServers, name: str) -> None:
        note(servers, name)
        heard.set()

    monkeypatch.setattr(SessionServers, "mark_stale", hear)
    async with serving() as server:
        configure(server.url)
        async with session_in(project, model=script(tmp_path, far("grow"), "."), trust=True) as (engine, session):
            await run_turn(engine, session)
            async with asyncio.timeout(60):
                await heard.wait()
            await run_turn(engine, session)
            assert "mcp__far__grown: Is new." in told(engine, session)


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_call_that_hangs_ends_when_the_user_stops_its_server(tmp_path, project, kind):
    async with serving(is_sse=kind == "sse") as server:
        configure(server.url, type=kind)
        model = script(tmp_path, far("hang"), far("say", text="back"), "Done.")
        async with session_in(project, model=model, trust=True) as (engine, session):
            assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
            rows: tuple[q.ServerRow, ...] = ()
            while not any(b'"hang"' in body for body in server.bodies):
                rows = (await engine.query(q.ServersQuery(session=session))).servers
            (row,) = rows
            command = cmd.ServerControl(session=session, server="far", action="stop", digest=row.digest)
            assert isinstance(await engine.submit(command), cmd.Ack)
            await read_until(engine, session, ev.TurnFinished)
            stopped, reply = results(engine, session)
            assert "The user stopped it." in stopped.content
            assert reply.content == "back"


HELPER = (
    """printf '{"X-Token": "%s of %s", "X-Was": "%s"}' "$WORD" "$CLAUDE_CODE_MCP_SERVER_NAME" "$(cat a.txt)"; """
    "echo x >made"
)


async def test_a_command_prints_headers_in_the_box_before_each_connection(tmp_path, project):
    async with serving() as server:
        configure(
            server.url, headersHelper=HELPER, headers={"X-Token": "old", "X-Other": "as it is"}, env={"WORD": "w"}
        )
        model = script(tmp_path, far("say", text="hi"), "Done.")
        async with session_in(project, model=model, trust=True) as (engine, session):
            await run_turn(engine, session)
            assert results(engine, session)[0].content == "hi"
            assert not engine.state(session).review.changes, "what it writes is gone with it"
    assert {headers["x-token"] for _, _, headers in server.requests} == {"w of far"}
    assert {(headers["x-was"], headers["x-other"]) for _, _, headers in server.requests} == {("one", "as it is")}
    assert not (project / "made").exists()


@pytest.mark.parametrize(
    ("helper", "said"),
    [
        ("echo no; echo why >&2", "printed no JSON object of texts"),
        ("exit 3", "ended with exit code 3"),
        ("yes", "prints more than 65,536 characters"),
        ("""echo '{"Host": "evil.example"}'""", "its header 'Host' can't be set"),
    ],
)
async def test_a_command_that_prints_no_headers_is_told_and_nothing_is_sent(tmp_path, project, helper, said):
    async with serving() as server:
        configure(server.url, headersHelper=helper)
        async with session_in(project, model=script(tmp_path, far("say", text="hi"), "."), trust=True) as (
            engine,
            session,
        ):
            await run_turn(engine, session)
            assert said in told(engine, session)
    assert server.requests == []


async def test_i3_a_projects_command_for_headers_waits_for_the_yes_to_its_entry(tmp_path, project):
    async with serving() as server:
        configure(server.url, headersHelper="echo '{}'")
        (get_config_dir() / "mcp.json").rename(project / ".mcp.json")
        model = script(tmp_path, far("say", text="hi"), ".")
        async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
            assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
            asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
            assert "command for headers: echo '{}'" in asked.questions[0].text
            await answer_question(engine, session, asked, "no")
            await read_until(engine, session, ev.TurnFinished)
    assert server.requests == []
