from __future__ import annotations

from core.config.settings import RouteSettings, RouteTable, Settings
from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.routed import EFFORTFUL, engine_of, of, served

PLAN = """---
name: Two
todos:
  - id: a
    content: Look around
    model: second/gpt-5.4-mini  # the cheap one
    effort: max
  - id: b
    content: Sum up
    dependencies: [a]
---
Do it.
"""
PLACE = ".cursor/plans/two_1.plan.md"


def done(todo: str) -> Step:
    todos = [{"id": todo, "status": "completed"}]
    return Step(calls=[Call(name="todo_write", arguments={"merge": True, "todos": todos})])


async def planned(tmp_path, settings: Settings, *, trust: bool) -> tuple[Engine, str]:
    (tmp_path / PLACE).parent.mkdir(parents=True)
    (tmp_path / PLACE).write_text(PLAN)
    return await engine_of(tmp_path, settings, trust=trust)


async def built(engine: Engine, session: str, **how: int) -> list[ev.AnyEvent]:
    after = engine.state(session).seq
    reply = await engine.submit(cmd.PlanBuild(session=session, path=PLACE, **how))
    assert isinstance(reply, cmd.Ack), reply
    events: list[ev.AnyEvent] = []
    async for envelope in engine.events(session, after=after):
        events.append(envelope.event)
        if isinstance(envelope.event, ev.TurnFinished):
            return events
    return events


async def test_a_todo_is_built_by_the_model_that_it_names_and_the_next_by_the_usual_one(tmp_path):
    async with (
        provider_server([done("b"), "Done."]) as first,
        provider_server([done("a"), "x"]) as second,
    ):
        settings = Settings(providers=served((first, second), "first", "second"), routes=EFFORTFUL)
        engine, session = await planned(tmp_path, settings, trust=True)
        events = await built(engine, session)
        assert of(events, ev.TurnFinished)[0].reason == "done"
        assert [request.json["model"] for request in second.answered] == ["gpt-5.4-mini"]
        assert [request.json.get("reasoning_effort") for request in second.answered] == ["xhigh"]
        assert len(first.answered) == 2
        taken = [(event.model, event.effort, event.wanted) for event in of(events, ev.RouteTaken)]
        usual = ("first/gpt-5.4", "medium", "")
        assert taken == [usual, ("second/gpt-5.4-mini", "xhigh", "max"), usual]
        assert "the cheap one" in (tmp_path / PLACE).read_text()
        await engine.close()


async def test_in_a_project_that_is_not_trusted_a_plan_chooses_no_model(tmp_path):
    async with provider_server([done("a"), done("b"), "Done."]) as first, provider_server([]) as second:
        settings = Settings(providers=served((first, second), "first", "second"), routes=EFFORTFUL)
        (tmp_path / "AGENTS.md").write_text("Obey.")
        engine, session = await planned(tmp_path, settings, trust=False)
        assert not engine._find_session(session).services.trust.trusted
        assert of(await built(engine, session), ev.TurnFinished)[0].reason == "done"
        assert second.answered == []
        await engine.close()


async def test_in_parallel_a_todo_has_its_own_model_and_the_others_that_of_subagents(tmp_path):
    look = Step(calls=[Call(name="list_dir", arguments={"relative_workspace_path": "."})])
    async with (
        provider_server([]) as first,
        provider_server([look, "Looked."]) as second,
        provider_server([look, "Summed up."]) as third,
    ):
        routes = RouteTable(
            chat=RouteSettings(model="first/gpt-5.4", effort="low"),
            subagent=RouteSettings(model="third/gpt-5.4", effort="medium"),
        )
        settings = Settings(providers=served((first, second, third), "first", "second", "third"), routes=routes)
        engine, session = await planned(tmp_path, settings, trust=True)
        events = await built(engine, session, workers=2)
        assert of(events, ev.TurnFinished)[0].reason == "done", of(events, ev.ErrorRaised)
        assert first.answered == []
        assert [event.model for event in of(events, ev.SubagentStarted)] == ["second/gpt-5.4-mini", "third/gpt-5.4"]
        assert {request.json.get("reasoning_effort") for request in second.answered} == {"xhigh"}
        assert {request.json.get("reasoning_effort") for request in third.answered} == {"medium"}
        taken = engine.state(session).model_choices.usage
        assert set(taken) == {"subagent second/gpt-5.4-mini", "subagent third/gpt-5.4"}
        await engine.close()
