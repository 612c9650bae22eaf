"""The engine with real providers and a real model server: what goes over the wire, turn after turn."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core.engine import Engine
from core.modes import Access, Mode, is_granted
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import UserMessage
from core.tools.toolset import Toolset
from core.user_dirs import get_config_dir, get_state_dir
from tests.contract.test_access_matrix import ARGUMENTS
from tests.support.history import anthropic_faults, faults, openai_faults
from tests.support.open_session import engine_in, read_until, run_turn, set_keys, submit
from tests.support.provider_server import Request, provider_server
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at
from tests.support.trust import trust

TOOLS = Toolset()

READ = Call(name="read_file", arguments={"target_file": "a.txt"})
EDIT = Call(name="search_replace", arguments={"file_path": "a.txt", "old_string": "two", "new_string": "TWO"})
PLAN = {
    "name": "A plan",
    "overview": "Two steps",
    "plan": "# Do it",
    "todos": [{"id": "a", "content": "First"}, {"id": "b", "content": "Then", "dependencies": ["a"]}],
}
both_dialects = pytest.mark.parametrize("dialect", ["openai", "anthropic"])


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    set_keys(monkeypatch)
    return project_at(tmp_path / "project")


@contextlib.asynccontextmanager
async def serving(monkeypatch, *steps, strict=True, **fields):
    async with provider_server(steps, strict=strict, **fields) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        yield server


async def opened(engine: Engine, model: str, *, mode: ev.ModeName = "agent") -> str:
    return await submit(engine, cmd.SessionOpen(model=model, mode=mode))


def unmarked(value: Any) -> Any:
    """Without cache marks, which have to move with the end of the conversation."""
    if isinstance(value, dict):
        return {key: unmarked(member) for key, member in value.items() if key != "cache_control"}
    return [unmarked(member) for member in value] if isinstance(value, list) else value


def parts(request: Request) -> list[str]:
    """The conversation as it was sent, in the smallest parts that a provider caches by."""
    pieces: list[str] = []
    for message in request.json["messages"]:
        content = message["content"]
        blocks = content if isinstance(content, list) and request.path == "/v1/messages" else [message]
        pieces += [f"{message['role']} {json.dumps(unmarked(block))}" for block in blocks]
    return pieces


def head(request: Request) -> bytes:
    """System prompt and tools, as they were sent."""
    body = request.json
    return json.dumps([body.get("system"), body.get("tools")]).encode()


def assert_prefixes_hold(requests: Sequence[Request]) -> None:
    for first, second in itertools.pairwise(requests):
        assert head(first) == head(second)
        before, now = parts(first), parts(second)
        assert now[: len(before)] == before
        assert len(now) > len(before)


def assert_valid(request: Request) -> None:
    check = anthropic_faults if request.path == "/v1/messages" else openai_faults
    assert check(request.json["messages"]) == []


@both_dialects
async def test_every_request_begins_with_the_one_before_it_whatever_happens_between(project, monkeypatch, dialect):
    (project / "AGENTS.md").write_text("Be brief.\n")
    trust(project)
    steps = (
        Step(text="I look.", reasoning="Hm.", calls=[READ, Call(name="grep", arguments={"pattern": "o"})]),
        Step(calls=[EDIT]),
        "Changed.",
        Step(calls=[READ]),
        "Planned.",
        "There is nothing to plan.",
        "After all.",
    )
    async with serving(monkeypatch, *steps) as server:
        async with engine_in(project) as engine:
            session = await opened(engine, f"{dialect}/tiny-1")
            await run_turn(engine, session, "Change it @a.txt")
            await submit(engine, cmd.HunkResolve(session=session, path="a.txt", verdict="reject", reason="No"))
            await submit(engine, cmd.ModeSet(session=session, mode="plan"))
            (project / "AGENTS.md").write_text("Be long.\n")
            await run_turn(engine, session, "And now?")
        async with engine_in(project) as engine:
            await submit(engine, cmd.SessionResume(session=session))
            await run_turn(engine, session, "Go on")
            assert faults(engine.state(session).messages) == []
        assert len(server.answered) == 7
        assert_prefixes_hold(server.answered)
        for request in server.answered:
            assert_valid(request)
        last = "".join(parts(server.answered[-1]))
        assert "rejected: a.txt" in last
        assert "Be brief." in head(server.answered[-1]).decode() or "Be brief." in last


@both_dialects
@pytest.mark.parametrize("place", ["before", "text", "tool"])
async def test_v9_after_an_interrupt_the_next_request_is_one_that_the_provider_accepts(
    project, monkeypatch, dialect, place
):
    stopped = Step(text="Half of it and more. " * 5, calls=[READ, EDIT], hang=place)
    async with serving(monkeypatch, Step(calls=[READ]), stopped, "Whole.") as server, engine_in(project) as engine:
        session = await opened(engine, f"{dialect}/tiny-1")
        before = engine.state(session).seq
        await submit(engine, cmd.TurnSubmit(session=session, text="one"))
        await server.hanging.wait()
        await submit(engine, cmd.TurnInterrupt(session=session))
        seen = await read_until(engine, session, ev.TurnFinished, after=before)
        assert seen[-1].reason == "interrupted"
        assert (await run_turn(engine, session, "two"))[-1].reason == "done"
        assert_prefixes_hold(server.answered)
        assert_valid(server.answered[-1])
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"


@both_dialects
async def test_a_plan_is_made_in_plan_mode_and_built_in_agent_mode(project, monkeypatch, dialect):
    done = [{"id": "a", "content": "First", "status": "completed"}]
    steps = (
        Step(calls=[Call(name="create_plan", arguments=PLAN)]),
        "There it is.",
        Step(calls=[Call(name="todo_write", arguments={"merge": True, "todos": done}), EDIT]),
        "First is done. Shall I go on?",
    )
    async with serving(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, f"{dialect}/tiny-1", mode="plan")
        seen = await run_turn(engine, session, "Plan it")
        (created,) = [event.plan for event in seen if isinstance(event, ev.PlanCreated)]
        seen = await run_turn(engine, session, cmd.PlanBuild(session=session, path=created.path))
        assert ev.ModeChanged(mode="agent") in seen
        assert seen[-1].reason == "done"
        assert [todo.status for todo in engine.state(session).todos] == ["completed", "pending"]
        assert "status: completed" in (project / created.path).read_text()
        assert sorted(engine.state(session).changes) == ["a.txt"]
        assert engine.state(session).turns[-1].prompt == f"Build the plan “A plan” ({created.path})."
        sent = "".join(parts(server.answered[2]))
        assert f"Build the plan below; it is in `{created.path}`." in sent
        assert_prefixes_hold(server.answered)
        for request in server.answered:
            assert_valid(request)


async def test_a_plan_that_is_not_there_can_not_be_built(project, monkeypatch):
    async with serving(monkeypatch), engine_in(project) as engine:
        session = await opened(engine, "openai/tiny-1")
        reply = await engine.submit(cmd.PlanBuild(session=session, path=".cursor/plans/none.plan.md"))
        assert isinstance(reply, cmd.Reject)
        assert not engine.state(session).turns


@both_dialects
async def test_a_compaction_keeps_the_users_words_and_the_next_request_begins_anew(project, monkeypatch, dialect):
    (project / "a.txt").write_text("a long line of text\n" * 20_000)
    full = {"prompt": 80_000, "completion": 10}
    steps = (Step(calls=[READ]), Step(calls=[READ]), Step(text="Read.", usage=full), "NOTES: it was read.", "Next.")
    configured = get_config_dir()
    configured.mkdir(parents=True)
    (configured / "config.toml").write_text("[context]\nwindow = 100000\n")
    async with serving(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, f"{dialect}/tiny-1")
        await run_turn(engine, session, "Remember the word heliotrope")
        before = engine.state(session).seq
        await submit(engine, cmd.ContextCompact(session=session))
        seen = await read_until(engine, session, ev.ContextCompacted, after=before)
        assert seen[-1].after_tokens < seen[-1].before_tokens
        notes = server.answered[3].json
        assert not notes.get("tools")
        await run_turn(engine, session, "What was it?")
        last = server.answered[4]
        assert head(last) == head(server.answered[0])
        assert len(last.raw) < len(server.answered[2].raw) / 1.5
        sent = "".join(parts(last))
        assert all(words in sent for words in ("heliotrope", "NOTES: it was read.", "What was it?"))
        assert_valid(last)
        messages = [message for message in engine.state(session).messages if isinstance(message, UserMessage)]
        assert sum("heliotrope" in message.content for message in messages) == 1


async def test_there_is_nothing_to_compact_in_a_fresh_session(project, monkeypatch):
    async with serving(monkeypatch), engine_in(project) as engine:
        session = await opened(engine, "openai/tiny-1")
        reply = await engine.submit(cmd.ContextCompact(session=session))
        assert isinstance(reply, cmd.Reject)
        assert reply.code == "nothing_to_compact"


async def test_another_model_goes_on_with_the_same_conversation_in_its_own_dialect(project, monkeypatch):
    steps = (Step(text="I look.", reasoning="Hm.", calls=[READ]), "Read.", "Hello from there.", "And back.")
    async with serving(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, "anthropic/tiny-1")
        await run_turn(engine, session)
        for model in ("openai/tiny-2", "anthropic/tiny-2"):
            before = engine.state(session).seq
            await submit(engine, cmd.ModelSet(session=session, model=model))
            (changed,) = await read_until(engine, session, ev.ModelChanged, after=before)
            assert changed.model == model
            await run_turn(engine, session)
        paths = [(sent_request.path, sent_request.json["model"]) for sent_request in server.answered[1:]]
        assert paths == [
            ("/v1/messages", "tiny-1"),
            ("/v1/chat/completions", "tiny-2"),
            ("/v1/messages", "tiny-2"),
        ]
        for request in server.answered:
            assert_valid(request)
        assert "Hello from there." in "".join(parts(server.answered[-1]))
        reply = await engine.submit(cmd.ModelSet(session=session, model="nobody/x"))
        assert isinstance(reply, cmd.Reject)
        assert engine.state(session).model == "anthropic/tiny-2"


@both_dialects
async def test_k1_a_pasted_key_is_stored_for_its_owner_alone_and_used_in_the_next_request(
    project, monkeypatch, dialect
):
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.delenv(f"{name}_API_KEY")
    async with provider_server(["Hello."]) as server, engine_in(project) as engine:
        session = await opened(engine, "")
        rejected = await engine.submit(cmd.TurnSubmit(session=session, text="hi"))
        assert (rejected.code, rejected.message) == ("no_model", "no model is chosen.")
        address = server.openai_url if dialect == "openai" else server.anthropic_url
        model = f"{dialect}/tiny-1"
        configure = cmd.ProviderConfigure(
            session=session, provider=dialect, key="sk-pasted-0123456789", base_url=address, model=model
        )
        await submit(engine, configure)
        await submit(engine, cmd.ModelSet(session=session, model=model))
        assert (await run_turn(engine, session, "hi"))[-1].reason == "done"
        assert [request.key for request in server.answered] == ["sk-pasted-0123456789"]
        key_file = get_state_dir() / "keys.json"
        assert (key_file.stat().st_mode & 0o777, key_file.parent.stat().st_mode & 0o077) == (0o600, 0)
        chosen = get_config_dir() / "config.toml"
        assert tomllib.loads(chosen.read_text())["model"] == model
        holding = [path for path in Path.home().rglob("*") if path.is_file() and b"sk-pasted" in path.read_bytes()]
        assert holding == [key_file]
        answer = await engine.query(q.ModelsQuery())
        status = next(provider for provider in answer.providers if provider.id == dialect)
        assert "sk-pasted" not in str(status)
        assert status.key == str(key_file)
        assert (chosen.stat().st_mode & 0o077) == 0


async def test_n16a_the_theme_is_kept_for_the_next_time_and_nothing_else_is_touched(project):
    file = get_config_dir() / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('# mine\nmodel = "scripted/demo"\n')
    async with engine_in(project) as engine:
        assert isinstance(await engine.submit(cmd.ThemeKeep(theme="agent-light")), cmd.Ack)
        assert isinstance(await engine.submit(cmd.ThemeKeep(theme="nord")), cmd.Ack)
    assert file.read_text() == '# mine\nmodel = "scripted/demo"\n\n[ui]\ntheme = "nord"\n'
    async with engine_in(project) as engine:
        assert (await engine.query(q.SettingsQuery())).theme == "nord"


async def test_k3_a_key_is_not_sent_to_another_address(project, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    async with provider_server(["One."]) as first, provider_server(["Two."]) as second, engine_in(project) as engine:
        session = await opened(engine, "openai/tiny-1")
        for server, key in ((first, "sk-for-the-first-one"), (second, "")):
            configure = cmd.ProviderConfigure(session=session, provider="openai", key=key, base_url=server.openai_url)
            await submit(engine, configure)
            await run_turn(engine, session)
        assert [request.key for request in first.answered] == ["sk-for-the-first-one"]
        assert "sk-for-the-first-one" not in [request.key for request in second.answered]


@pytest.mark.parametrize("mode", list(Mode))
async def test_m1_a_script_that_calls_every_tool_acts_only_where_its_mode_grants_it(project, tmp_path, mode):
    (project / "a.py").write_text("x = 1\n")
    ordered = sorted(ARGUMENTS, key=lambda name: (name == "finish", name == "switch_mode", name == "delete_file", name))
    script = tmp_path / "all.yaml"
    called = [{"name": name, "arguments": ARGUMENTS[name]} for name in ordered]
    script.write_text(json.dumps([{"tool_calls": [READ_A]}, *({"tool_calls": [call]} for call in called), "Done."]))
    before = disk(project)
    async with engine_in(project) as engine:
        session = await opened(engine, f"scripted/{script}", mode=mode.value)
        answering = asyncio.create_task(refuse_everything(engine, session))
        seen = await run_turn(engine, session)
        answering.cancel()
        statuses = {event.tool: event.status for event in seen if isinstance(event, ev.ToolFinished)}
        assert set(statuses) == set(ARGUMENTS)
        contained = engine.terminal(session).is_contained
        refused = {name for name in ARGUMENTS if not is_granted(mode, TOOLS[name].access, is_contained=contained)}
        if mode is Mode.DEBUG:  # nothing is confirmed
            refused |= {name for name in ARGUMENTS if TOOLS[name].access is Access.PROPOSE}
        asked = {"run_terminal_cmd", "run_python", "write_terminal", "switch_mode"}
        assert {name for name, status in statuses.items() if status == "denied"} - asked == refused - asked
        assert seen[-1].reason == "done"
        assert engine.state(session).mode == mode.value
        assert bool(engine.state(session).changes) is (mode is Mode.AGENT)
    after = disk(project)
    assert {path: data for path, data in after.items() if not path.startswith(".cursor/plans/")} == before
    assert (after != before) is (mode is Mode.PLAN)


READ_A = {"name": "read_file", "arguments": {"target_file": "a.py"}}


def disk(project: Path) -> dict[str, bytes]:
    return {path.relative_to(project).as_posix(): path.read_bytes() for path in project.rglob("*") if path.is_file()}


async def refuse_everything(engine: Engine, session: str) -> None:
    """A user who allows nothing and answers nothing."""
    async for envelope in engine.events(session):
        match envelope.event:
            case ev.ApprovalRequested(id=approval):
                answer = cmd.ApprovalAnswer(session=session, id=approval, decision="reject_once")
                await engine.submit(answer)
            case ev.QuestionAsked(id=question):
                await engine.submit(cmd.QuestionReply(session=session, id=question, answers=()))
            case _:
                pass
