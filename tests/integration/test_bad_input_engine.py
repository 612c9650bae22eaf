"""Bad input to the engine as the screen starts it: a child process that says what is wrong and goes on."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from core.arguments import ScreenArguments
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.transports.stdio_client import connect
from core.user_dirs import get_config_dir, get_state_dir
from tests.support.program import KEY, PROGRAM
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at
from tests.support.trust import trust

EDIT = Call(name="search_replace", arguments={"file_path": "a.txt", "old_string": "two", "new_string": "TWO"})


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return project_at(tmp_path / "project")


@contextlib.asynccontextmanager
async def engine_in(project: Path):
    client = await connect(ScreenArguments(directory=project, program=PROGRAM, model="openai/tiny-1"))
    try:
        yield client
    finally:
        await client.close()


async def turn(client, session: str, after: int = 0) -> list[ev.Envelope]:
    reply = await client.submit(cmd.TurnSubmit(session=session, text="Do it"))
    assert isinstance(reply, cmd.Ack), reply
    return await until(client, session, ev.TurnFinished, after=after)


async def until(client, session: str, kind: type, *, after: int = 0) -> list[ev.Envelope]:
    seen: list[ev.Envelope] = []
    async with contextlib.aclosing(client.events(session, after=after)) as stream:
        async for envelope in stream:
            seen.append(envelope)
            if isinstance(envelope.event, kind):
                break
    return seen


async def test_a_state_directory_that_is_a_file_is_told_and_mending_it_is_enough(project, tmp_path, monkeypatch):
    place = tmp_path / "state"
    place.write_text("")
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(place))
    async with engine_in(project) as client:
        for _ in range(2):
            refused = await client.submit(cmd.SessionOpen())
            assert "can't be created: Not a directory" in refused.message or "File exists" in refused.message
            assert "AGENT_TUI_STATE_DIR" in refused.hint
        place.unlink()
        assert isinstance(await client.submit(cmd.SessionOpen()), cmd.Ack)


async def test_a_mistake_in_the_configuration_is_told_and_mending_it_is_enough(project):
    get_config_dir().mkdir(parents=True)
    path = get_config_dir() / "config.toml"
    path.write_text("[ui]\ntheme = 'two words'\n")
    async with engine_in(project) as client:
        refused = await client.submit(cmd.SessionOpen())
        assert refused.code == "config_invalid"
        assert refused.message.startswith(f"{path}, line 2: `ui.theme`")
        path.write_text("")
        assert isinstance(await client.submit(cmd.SessionOpen()), cmd.Ack)


async def test_p21_the_root_of_the_file_system_is_no_project():
    async with engine_in(Path("/")) as client:
        refused = await client.submit(cmd.SessionOpen())
        assert "is the root of the file system" in refused.message
        assert "Start in a project's own directory" in refused.hint


async def test_what_a_project_may_not_set_is_a_notice_at_the_start(project):
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui" / "config.toml").write_text("small_model = 'openai/theirs'\n")
    trust(project)
    async with engine_in(project) as client:
        reply = await client.submit(cmd.SessionOpen())
        event = (await until(client, reply.session, ev.Notice, after=reply.seq))[-1].event
        assert (event.level, "`small_model` was ignored" in event.message) == ("warning", True)


async def test_faults_of_the_provider_end_turns_and_never_the_session(project, monkeypatch):
    steps = (
        Step(status=401, error="invalid key"),
        Step(status=404, error="no such model", error_type="model_not_found"),
        Step(status=429, error="slow", headers={"Retry-After": "9999"}),
        Step(status=400, error="bad"),
        Step(calls=[EDIT]),
        "Changed.",
    )
    async with provider_server(steps) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        async with engine_in(project) as client:
            session, after, codes = (await client.submit(cmd.SessionOpen())).session, 0, []
            for _ in range(5):
                seen = await turn(client, session, after)
                after = seen[-1].seq
                codes += [envelope.event.code for envelope in seen if isinstance(envelope.event, ev.ErrorRaised)]
            assert codes == ["key_rejected", "model_unknown", "rate_limited", "request_invalid"]
            assert seen[-1].event.reason == "done"
            assert any(isinstance(envelope.event, ev.ChangeProposed) for envelope in seen)


async def test_d2_a_torn_log_is_mended_said_and_gone_on_with(project, monkeypatch):
    async with provider_server([Step(calls=[EDIT]), "Changed."]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        async with engine_in(project) as client:
            session = (await client.submit(cmd.SessionOpen())).session
            await turn(client, session)
        (log,) = get_state_dir().rglob("log.jsonl")
        log.write_bytes(log.read_bytes()[:-7])
        async with engine_in(project) as client:
            assert (await client.submit(cmd.SessionResume())).session == session
            resumed = (await until(client, session, ev.SessionResumed))[-1].event
            assert "The session log was damaged" in resumed.repaired
            reply = await client.submit(cmd.HunkResolve(session=session, path="a.txt", verdict="accept"))
            assert isinstance(reply, cmd.Ack)
            await until(client, session, ev.VerdictGiven)
            assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
