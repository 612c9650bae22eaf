"""Limits and policy of a session: changed while it runs, kept with it, never wider than the project allows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.engine import Engine
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.support.agent_case import calls, says
from tests.support.configured import configured
from tests.support.open_session import engine_in as engine_over
from tests.support.open_session import read_until, submit
from tests.support.program import ask
from tests.support.provider_streams import Call, Step
from tests.support.story import access, project_at
from tests.support.trust import trust

USED = {"prompt": 100, "completion": 20}
LOOK = Step(calls=[Call(name="list_dir", arguments={})], usage=USED)


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def engine_in(project: Path, *plays, **options):
    return engine_over(project, access(*plays), **options)


async def until(engine: Engine, session: str, kind: type, after: int = 0) -> ev.AnyEvent:
    return (await read_until(engine, session, kind, after=after))[-1]


async def test_limits_of_a_session_hold_at_once_and_survive_its_end(project):
    async with engine_in(project, [calls(("list_dir", {})) for _ in range(9)]) as engine:
        session = await submit(engine, cmd.SessionOpen())
        assert isinstance(await engine.submit(cmd.LimitsSet(session=session, max_steps=3, max_cost=1.5)), cmd.Ack)
        await engine.wait_idle(session)
        state = engine.state(session)
        assert state.limits == ev.LimitsChanged(max_steps=3, max_cost=1.5, by="user")
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        finished = await until(engine, session, ev.TurnFinished)
        assert (finished.reason, finished.steps) == ("limit", 3)
        assert "/limits" in finished.message
    async with engine_in(project, [calls(("list_dir", {})) for _ in range(9)]) as engine:
        await submit(engine, cmd.SessionResume(session=session))
        seq = engine.state(session).seq
        await engine.submit(cmd.TurnSubmit(session=session, text="again"))
        assert (await until(engine, session, ev.TurnFinished, seq)).steps == 3


async def test_what_the_command_line_says_of_a_limit_counts_more_than_the_session_had(project):
    async with engine_in(project) as engine:
        session = await submit(engine, cmd.SessionOpen())
        await engine.submit(cmd.LimitsSet(session=session, max_steps=3, max_tokens=900))
        await engine.submit(cmd.TurnSubmit(session=session, text="go"))
        await until(engine, session, ev.TurnFinished)
    async with engine_in(project, max_steps=7) as engine:
        await submit(engine, cmd.SessionResume(session=session))
        assert engine.state(session).limits == ev.LimitsChanged(max_steps=7, max_tokens=900, by="user")


async def test_what_is_configured_is_stated_when_a_session_begins(project):
    configured('[limits]\nmax_cost = 2.0\n[commands]\npolicy = "confirm"\n')
    async with engine_in(project) as engine:
        state = engine.state(await submit(engine, cmd.SessionOpen()))
        assert (state.limits, state.policy) == (ev.LimitsChanged(max_cost=2.0), ev.PolicyChanged(policy="confirm"))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (cmd.LimitsSet(max_steps=50), "limits.max_steps = 20"),
        (cmd.LimitsSet(max_steps=0), "limits.max_steps = 20"),
        (cmd.PolicySet(policy="auto"), "commands.policy = 'confirm'"),
    ],
)
async def test_what_a_project_made_stricter_is_not_widened(project, command, told):
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui" / "config.toml").write_text('[limits]\nmax_steps = 20\n[commands]\npolicy = "confirm"\n')
    trust(project)
    configured("")
    async with engine_in(project) as engine:
        session = await submit(engine, cmd.SessionOpen())
        command = type(command)(**{f: getattr(command, f) for f in command.__struct_fields__} | {"session": session})
        reply = await engine.submit(command)
        assert isinstance(reply, cmd.Reject)
        assert (reply.code, told in reply.message) == ("project_is_stricter", True)
        narrower = await engine.submit(cmd.LimitsSet(session=session, max_steps=5))
        stricter = await engine.submit(cmd.PolicySet(session=session, policy="human"))
        assert isinstance(narrower, cmd.Ack)
        assert isinstance(stricter, cmd.Ack)
        await engine.wait_idle(session)
        assert (engine.state(session).limits.max_steps, engine.state(session).policy.policy) == (5, "human")


async def test_where_the_user_types_the_commands_a_prompt_calls_no_model(project):
    async with engine_in(project, [says("I answer.")]) as engine:
        session = await submit(engine, cmd.SessionOpen())
        await engine.submit(cmd.PolicySet(session=session, policy="human"))
        await engine.wait_idle(session)
        reply = await engine.submit(cmd.TurnSubmit(session=session, text="mend it"))
        assert isinstance(reply, cmd.Reject)
        assert (reply.code, "/policy confirm" in reply.hint) == ("typed_by_user", True)
        assert engine.state(session).turns == []
        await engine.submit(cmd.CommandRun(session=session, command="echo typed"))
        ran = await until(engine, session, ev.CommandRan)
        assert "typed" in ran.output
        assert (engine.state(session).turns, engine.state(session).messages) == ([], [])
        await engine.submit(cmd.TurnSubmit(session=session, text="what was that?", anyway=True))
        assert (await until(engine, session, ev.TurnFinished)).reason == "done"
        assert any("echo typed" in message.content for message in engine.state(session).messages)


async def test_after_another_policy_prompts_go_to_the_model_again(project):
    configured('[commands]\npolicy = "human"\n')
    async with engine_in(project, [says("I answer.")]) as engine:
        session = await submit(engine, cmd.SessionOpen())
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="go")), cmd.Reject)
        await engine.submit(cmd.PolicySet(session=session, policy="confirm"))
        await engine.wait_idle(session)
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="go")), cmd.Ack)
        await until(engine, session, ev.TurnFinished)


async def test_without_a_screen_nobody_types_and_no_model_is_called(project):
    configured('[commands]\npolicy = "human"\n')
    ended, requests = await ask(project, "Hello.")
    assert (ended.code, ended.out, requests) == (ExitCode.FAILED, "", [])
    assert "you run the commands here (policy `human`)," in ended.err


async def test_a_limit_of_cost_without_a_price_ends_after_one_step_and_says_what_to_configure(project):
    ended, requests = await ask(project, LOOK, LOOK, "Done.", arguments=("--max-cost", "0.5"))
    assert (ended.code, len(requests)) == (ExitCode.LIMIT, 1)
    assert 'Set its price in US dollars per million tokens: [models."openai/tiny-1"] price =' in ended.err


async def test_a_configured_price_is_what_a_limit_of_cost_counts(project):
    configured('[models."openai/tiny-1"]\nprice = { input = 1000.0, output = 0.0, cached = 0.0 }\n')
    limited, requests = await ask(project, LOOK, LOOK, LOOK, "Done.", arguments=("--max-cost", "0.15"))
    assert (limited.code, len(requests)) == (ExitCode.LIMIT, 2)  # 100 tokens a step are $0.10
    done = Step(text="Done.", usage=USED)
    result, _ = await ask(project, done, arguments=("--output-format", "json"))
    assert json.loads(result.out)["usage"]["cost"] == pytest.approx(0.1)
