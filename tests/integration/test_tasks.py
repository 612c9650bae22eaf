"""Tasks that a model gives to subagents: side by side, in shadows of their own, merged once, whatever stops them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import QuestionAnswer
from core.protocol.messages import AssistantMessage, ToolMessage
from core.protocol.queries import ConflictQuery
from core.sessions.store import SessionStore
from tests.support.agent_case import Step, calls, says
from tests.support.box_tiers import offered
from tests.support.folded import fold_events
from tests.support.session_log import scan
from tests.support.subagents import CALC, KNOWN, ROUNDED, converse, edit, open_build, project_at
from tests.support.trust import trust

E = TypeVar("E", bound=ev.Event)
boxed = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="commands need a box")
GROSS = "    return price * (1 + RATE)"
ASKS = {"questions": [{"id": "q", "prompt": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]}


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def give(part: str, **more: str) -> tuple[str, dict[str, object]]:
    task = {"description": f"Do {part}", "prompt": f"[part {part}]", **more}
    return "task", task


def write(path: str, text: str = "x\n") -> Step:
    return calls(("write", {"file_path": path, "contents": text}))


def of(seen: list[ev.AnyEvent], kind: type[E]) -> list[E]:
    return [event for event in seen if isinstance(event, kind)]


def results(engine: Engine, session: str) -> list[ToolMessage]:
    return [message for message in engine.state(session).messages if isinstance(message, ToolMessage)]


def go_on(engine: Engine, session: str, *steps: Step) -> list[Step]:
    """The steps of a model in a conversation in which it has said something already."""
    messages = [message for message in engine.state(session).messages if isinstance(message, AssistantMessage)]
    return [*([says("")] * len(messages)), *steps]


def read_child(project: Path, session: str, name: str):
    return fold_events(scan(SessionStore(project).sessions_path / session / "children" / name / "log.jsonl").envelopes)


async def test_four_work_at_once_a_fifth_waits_and_a_clash_is_told(project):
    gate = asyncio.Event()
    plays = {
        "parent": [calls(*map(give, ("rounding", "rate", "docs", "news", "fifth"))), says("All are done.")],
        "rounding": [edit(GROSS, ROUNDED), says("It is rounded.")],
        "rate": [edit(GROSS, KNOWN), [gate, *says("It knows.")]],
        "docs": [write("docs/use.md"), [gate, *says("Written.")]],
        "news": [write("NEWS.md"), [gate, *says("New.")]],
        "fifth": [write("fifth.txt"), says("Late.")],
    }
    async with open_build(project, plays) as (engine, team):
        at_work: list[set[str]] = [set()]

        def on(event: ev.AnyEvent) -> None:
            if isinstance(event, ev.SubagentStarted):
                at_work.append(at_work[-1] | {event.id})
            if isinstance(event, ev.SubagentFinished):
                at_work.append(at_work[-1] - {event.id})
            if isinstance(event, ev.SubagentMerged):
                gate.set()

        seen = await converse(engine, team.session, "[part parent]", on=on)
        assert max(map(len, at_work)) == 4
        asked = [request.call for request in of(seen, ev.ToolRequested)]
        assert [start.call for start in of(seen, ev.SubagentStarted)] == asked, "in the order of the calls"
        [waits] = [output for output in of(seen, ev.ToolOutput) if "4 subagents are running" in output.text]
        assert waits.call == of(seen, ev.ToolRequested)[4].call
        messages = results(engine, team.session)
        assert [message.content.split("\n")[0] for message in messages] == [
            "It is rounded.",
            "It knows.",
            "Written.",
            "New.",
            "Late.",
        ]
        assert "Its changes are merged into yours: docs/use.md." in messages[2].content
        assert "They conflict in calc.py" in messages[1].content
        assert any("Do rate: it conflicts" in notice.message for notice in of(seen, ev.Notice))
        changes = engine.state(team.session).changes
        assert set(changes) == {"calc.py", "docs/use.md", "NEWS.md", "fifth.txt"}
        assert len(changes["calc.py"].competing_versions) == 1
        assert changes["calc.py"].conflict == "“Do rate” changed the same place in another way."
        assert changes["docs/use.md"].origin.subagent == "Do docs"
        asked = await engine.query(ConflictQuery(session=team.session, path="calc.py"))
        assert (asked.sides.mine_is, asked.sides.theirs_is) == ("“Do rounding”", "“Do rate”")
        assert (project / "calc.py").read_text() == CALC
        assert not (project / "fifth.txt").exists()
        usage = engine.state(team.session).turns[-1].usage
        assert usage.cost == pytest.approx(0.25 * 12), "what they used counts for the turn"


@boxed
async def test_who_explores_changes_nothing_and_reports(project):
    looks = [
        calls(("run_terminal_cmd", {"command": "touch made && ls"})),
        write("no.txt"),
        calls(give("again")),
        says("It is in `calc.py:5`."),
    ]
    plays = {"parent": [calls(give("looks", subagent_type="Explore")), says("I see.")], "looks": looks}
    async with open_build(project, plays) as (engine, team):
        seen = await converse(engine, team.session, "[part parent]")
        [report] = results(engine, team.session)
        assert report.content.startswith("It is in `calc.py:5`.")
        [started] = of(seen, ev.SubagentStarted)
        assert (started.agent, started.title, started.todo) == ("explore", "Do looks", "")
        child = read_child(project, team.session, started.id)
        assert child.mode == "ask"
        answers = [message for message in child.messages if isinstance(message, ToolMessage)]
        assert "made" in answers[0].content
        assert [answer.is_error for answer in answers] == [False, True, True]
        assert "task (spawn) is not among the tools you have" in answers[2].content
        state = engine.state(team.session)
        assert (dict(state.changes), state.review.bulks) == ({}, ())
        assert not (project / "made").exists()


async def test_one_that_is_stopped_is_told_and_goes_on_when_it_is_resumed(project):
    never = asyncio.Event()
    plays: dict[str, list[Step]] = {
        "parent": [calls(give("docs"), give("news")), says("One is left.")],
        "docs": [write("docs/use.md"), [never]],
        "news": [write("NEWS.md"), says("New.")],
    }
    async with open_build(project, plays) as (engine, team):
        titles: dict[str, str] = {}

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            if isinstance(event, ev.SubagentStarted):
                titles[event.id] = event.title
            is_meant = isinstance(event, ev.SubagentProgressed) and titles[event.id] == "Do docs" and event.changed
            return cmd.TurnInterrupt(session=event.id) if is_meant else None

        await converse(engine, team.session, "[part parent]", on=on)
        stopped, done = results(engine, team.session)
        name = next(subagent_id for subagent_id, title in titles.items() if title == "Do docs")
        assert stopped.is_error
        assert f"[generalPurpose {name} did not finish: it was stopped" in stopped.content
        assert not done.is_error
        assert set(engine.state(team.session).changes) == {"NEWS.md"}

        plays["docs"] = [plays["docs"][0], says("Written.")]
        plays["again"] = go_on(engine, team.session, calls(give("docs", resume=name)), says("All."))
        seen = await converse(engine, team.session, "[part again]", after=engine.state(team.session).seq)
        assert [(start.id, start.again) for start in of(seen, ev.SubagentStarted)] == [(name, True)]
        assert set(engine.state(team.session).changes) == {"NEWS.md", "docs/use.md"}

        plays["docs"] = [*plays["docs"], write("docs/more.md"), says("More.")]
        plays["more"] = go_on(engine, team.session, calls(give("docs", resume=name)), says("All."))
        seen = await converse(engine, team.session, "[part more]", after=engine.state(team.session).seq)
        [started] = of(seen, ev.SubagentStarted)
        assert started.id != name, "what was merged is not merged again"
        assert "docs/more.md" in engine.state(team.session).changes
        texts = [message.content for message in read_child(project, team.session, started.id).messages]
        assert "Written." in texts, "it knows what it said before"


async def test_a_question_reaches_the_user_and_an_interrupt_stops_them_all(project):
    never = asyncio.Event()
    plays = {
        "parent": [calls(give("asks"), give("waits"))],
        "asks": [calls(("ask_question", ASKS)), write("a.txt"), [never]],
        "waits": [[never]],
    }
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            if isinstance(event, ev.QuestionAsked):
                assert event.title.startswith("Asked by the subagent at Do asks")
                answer = QuestionAnswer(question="q", options=(event.questions[0].options[0].id,))
                return cmd.QuestionReply(session=team.session, id=event.id, answers=(answer,))
            is_busy = isinstance(event, ev.SubagentProgressed) and event.changed
            return cmd.TurnInterrupt(session=team.session) if is_busy else None

        seen = await converse(engine, team.session, "[part parent]", on=on)
        assert of(seen, ev.TurnFinished)[0].reason == "interrupted"
        assert [finish.reason for finish in of(seen, ev.SubagentFinished)] == ["interrupted"] * 2
        state = engine.state(team.session)
        assert {subagent.state for subagent in state.subagents.values()} == {"ended"}
        assert dict(state.changes) == {}
        assert len(results(engine, team.session)) == 2, "each call has its answer"


@boxed
async def test_an_interrupt_is_over_when_the_last_of_them_has_stopped_also_a_second_one(project):
    never = asyncio.Event()
    held = "trap '' TERM; echo held; while true; do sleep 0.05; done"
    plays = {
        "parent": [calls(give("waits"), give("runs"))],
        "waits": [[never]],
        "runs": [calls(("run_terminal_cmd", {"command": held})), says("never")],
    }
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            is_busy = isinstance(event, ev.SubagentProgressed) and any("Running" in act.text for act in event.acts)
            is_impatient = isinstance(event, ev.SubagentFinished) and "waits" in titles[event.id]
            if isinstance(event, ev.SubagentStarted):
                titles[event.id] = event.title
            return cmd.TurnInterrupt(session=team.session) if is_busy or is_impatient else None

        titles: dict[str, str] = {}
        seen = await converse(engine, team.session, "[part parent]", on=on)
        ended = [(titles[finish.id], finish.reason, finish.steps) for finish in of(seen, ev.SubagentFinished)]
        assert ended == [("Do waits", "interrupted", 1), ("Do runs", "interrupted", 1)], "before the turn, and once"
        contents = [result.content for result in results(engine, team.session)]
        reason = (
            "it was stopped. Its changes are kept with it and not merged. "
            "Call again with `resume` and this id to continue it."
        )
        assert contents == [f"[generalPurpose {name} did not finish: {reason}]" for name in titles]


async def test_the_time_of_one_that_is_silent_goes_on_and_not_while_it_waits_for_the_user(project):
    gate = asyncio.Event()
    asks = [calls(("ask_question", ASKS)), says("Asked.")]
    plays = {"parent": [calls(give("thinks"), give("asks")), says("So.")], "thinks": [[gate, *says("I see.")]]}
    async with open_build(project, {**plays, "asks": asks}) as (engine, team):
        times: dict[str, list[int]] = {}
        questions: list[ev.QuestionAsked] = []

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            if isinstance(event, ev.QuestionAsked):
                times.clear()
                questions.append(event)
            if not isinstance(event, ev.SubagentProgressed):
                return None
            times.setdefault(event.id, []).append(event.duration_ms)
            if not questions or len(times[event.id]) < 5 or gate.is_set():
                return None
            waited.extend(times.get(questions[0].subagent, ()))
            gate.set()
            return cmd.QuestionReply(session=team.session, id=questions[0].id, answers=())

        waited: list[int] = []
        seen = await converse(engine, team.session, "[part parent]", on=on)
        thinks = times[of(seen, ev.SubagentStarted)[0].id]
        assert thinks == sorted(set(thinks))
        assert len(waited) <= 2, "nothing is told of who waits"


async def test_what_waited_with_the_parent_is_not_counted_as_what_a_subagent_changed(project):
    plays = {
        "parent": [calls(("write", {"file_path": "before.txt", "contents": "x\n"})), calls(give("docs"))],
        "docs": [calls(("ask_question", ASKS)), write("docs/use.md"), says("Written.")],
    }
    plays["parent"].append(says("All."))
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            if not isinstance(event, ev.QuestionAsked):
                return None
            answer = QuestionAnswer(question="q", options=(event.questions[0].options[0].id,))
            return cmd.QuestionReply(session=team.session, id=event.id, answers=(answer,))

        seen = await converse(engine, team.session, "[part parent]", on=on)
        counts = [progress.changed for progress in of(seen, ev.SubagentProgressed)]
        assert counts[0] == 0
        assert max(counts) <= 1
        assert set(engine.state(team.session).changes) == {"before.txt", "docs/use.md"}


async def test_in_ask_mode_a_task_can_only_look(project):
    plays = {"parent": [calls(give("docs")), says("So.")], "docs": [write("docs/use.md"), says("I could not.")]}
    async with open_build(project, plays, mode="ask") as (engine, team):
        seen = await converse(engine, team.session, "[part parent]")
        [started] = of(seen, ev.SubagentStarted)
        answers = [
            message
            for message in read_child(project, team.session, started.id).messages
            if isinstance(message, ToolMessage)
        ]
        assert answers[0].content.startswith("Not run: ask mode does not allow write")
        assert dict(engine.state(team.session).changes) == {}


async def test_of_many_kinds_those_that_do_not_fit_are_told_by_name(project):
    folder = project / ".claude" / "agents"
    folder.mkdir(parents=True)
    for number in range(60):
        description = f"Does part {number}. " + "x" * 400
        (folder / f"part-{number:02}.md").write_text(
            f"---\nname: part-{number:02}\ndescription: {description}\n---\nGo.\n"
        )
    trust(project)
    plays = {"parent": [calls(give("last", subagent_type="part-59")), says("So.")], "last": [says("It is done.")]}
    async with open_build(project, plays) as (engine, team):
        await converse(engine, team.session, "[part parent]")
        prompt = str(engine.state(team.session).messages[0].content)
        assert "- part-00: Does part 0." in prompt
        assert "- generalPurpose: Does a whole piece" in prompt
        assert "part-59: " not in prompt
        assert ", part-58, part-59\n" in prompt
        assert len(prompt) < 20_000
        assert results(engine, team.session)[0].content.startswith("It is done.")


OWN = """---
name: reviewer
description: Reads and judges.
tools: Read, Grep, Telepathy
maxTurns: 3
---
You are the reviewer.
"""


async def test_the_users_own_agents_have_their_tools_and_limits(project):
    folder = project / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "reviewer.md").write_text(OWN)
    (folder / "narrow.md").write_text("---\nname: narrow\ndescription: x\ntools: Bash(git *)\n---\nBe narrow.\n")
    read = calls(("read_file", {"target_file": "calc.py"}))
    plays = {
        "parent": [
            calls(give("judge", subagent_type="reviewer")),
            calls(give("x", subagent_type="narrow"), give("x", subagent_type="revewer"), give("x", resume="sub_0")),
            says("So."),
        ],
        "judge": [write("no.txt"), read, read, read, says("Good.")],
    }
    async with open_build(project, plays, trust=True) as (engine, team):
        seen = await converse(engine, team.session, "[part parent]")
        [started] = of(seen, ev.SubagentStarted)
        child = read_child(project, team.session, started.id)
        contents = [message.content for message in child.messages]
        assert "You are the reviewer." in contents[0]
        answers = [message for message in child.messages if isinstance(message, ToolMessage)]
        assert [answer.is_error for answer in answers] == [True, False, False]
        limited, narrow, misspelt, unknown = (result.content for result in results(engine, team.session))
        assert "did not finish: Stopped after 3 steps" in limited
        assert "narrow (.claude/agents/narrow.md) can't start: `Bash(git *)`" in narrow
        assert "Did you mean reviewer?" in misspelt
        assert "There is no subagent 'sub_0' that could continue" in unknown
        offer = engine.state(team.session).messages[0].content
        assert "- reviewer: Reads and judges." in offer
        assert "- narrow" not in offer


async def test_a_model_that_is_not_there_is_told_and_the_work_goes_on(tmp_path, project):
    name, arguments = give("docs", model="nowhere/model")
    steps = [{"tool_calls": [{"name": name, "arguments": arguments}]}, "Then I do it."]
    (tmp_path / "m.yaml").write_bytes(msgspec.json.encode({"turns": [{"steps": steps}]}))
    engine = Engine(project, options=EngineOptions(watch=False, model=f"scripted/{tmp_path / 'm.yaml'}"))
    try:
        opened = await engine.submit(cmd.SessionOpen())
        assert isinstance(opened, cmd.Ack), opened
        seen = await converse(engine, opened.session, "Write the docs")
        [report] = results(engine, opened.session)
        assert report.is_error
        assert "nowhere" in report.content
        assert of(seen, ev.TurnFinished)[0].reason == "done"
        assert {subagent.state for subagent in engine.state(opened.session).subagents.values()} == {"ended"}
    finally:
        await engine.close()
