"""Subagents that work the todos of a plan at once: merged hunk by hunk, once, whatever stops them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.engine import Engine
from core.errors import ProviderError
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.documents import QuestionAnswer
from core.protocol.messages import ToolMessage
from core.protocol.review import ConflictChoice
from core.sessions.store import SessionStore
from tests.support.agent_case import calls, says
from tests.support.box_tiers import offered
from tests.support.folded import fold_events
from tests.support.session_log import scan
from tests.support.subagents import (
    CALC,
    KNOWN,
    PATH,
    PLAN,
    ROUNDED,
    edit,
    open_build,
    play,
    project_at,
    statuses,
    todo_of,
)

boxed = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="commands need a box")
HOST = Path(__file__).parents[1] / "support" / "subagents_host.py"
LOOK = calls(("list_dir", {"relative_workspace_path": "."}))
FOUR = {"rounding", "showing", "docs", "rate"}


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


@boxed
async def test_four_at_once_are_merged_and_their_one_conflict_is_settled_by_hand(project):
    all_at_work, rounded, plays = asyncio.Event(), asyncio.Event(), play()
    plays["rounding"] = [plays["rounding"][0], [all_at_work, *says("It is rounded.")]]
    plays["rate"] = [plays["rate"][0], [rounded, *says("It knows.")]]
    async with open_build(project, plays) as (engine, team):

        def on(_: ev.AnyEvent) -> None:
            if len(team.of(ev.SubagentStarted)) == 4:
                all_at_work.set()
            if "rounding" in {todo_of(team, merge.id) for merge in team.of(ev.SubagentMerged)}:
                rounded.set()

        end = await team.build(on=on)
        assert (end.reason, end.message) == ("done", "")
        begun = [start.todo for start in team.of(ev.SubagentStarted)]
        assert (set(begun[:4]), begun[4:]) == (FOUR, [])
        assert end.usage.cost == sum(finish.usage.cost for finish in team.of(ev.SubagentFinished)) > 0
        state = engine.state(team.session)
        assert statuses(engine, team) == dict.fromkeys(FOUR - {"rate"}, "completed") | {
            "rate": "in_progress",
            "release": "pending",
        }
        calc = state.changes["calc.py"]
        assert {hunk.todo for hunk in calc.hunks} == {"rounding", "showing"}
        assert [version.todo for version in calc.competing_versions] == ["rate"]
        assert state.changes["docs/use.md"].hunks[0].todo == "docs"
        assert {bulk.root for bulk in state.review.bulks} >= {"out"}
        await settle_by_hand(engine, team.session, project)
        assert statuses(engine, team)["rate"] == "completed"
        await team.build(workers=2, after=state.seq)
        assert [start.todo for start in team.of(ev.SubagentStarted)] == ["release"]
        assert set(statuses(engine, team).values()) == {"completed"}
        await engine.submit(cmd.HunkResolve(session=team.session, path="", verdict="accept"))
        await engine.wait_idle(team.session)
        expected = CALC.replace("price * (1 + RATE)", "round(price * 1.19, 2)").replace(
            "str(price)", 'f"{price:.2f} EUR"'
        )
        assert (project / "calc.py").read_text() == expected
        assert ((project / "NEWS.md").read_text(), (project / "docs/use.md").read_text()) == ("1.0\n", "Use it.\n")
        assert (project / PATH).read_text() == PLAN.replace("status: pending", "status: completed")
        session, live = team.session, engine.state(team.session)
        changed = (live.todos, live.usage, live.subagents, live.review.verdicts, live.changes)
    log = scan(SessionStore(project).sessions_path / session / "log.jsonl")
    again = fold_events(log.envelopes)
    assert (again.todos, again.usage, again.subagents, again.review.verdicts, again.changes) == changed
    assert SessionStore(project).find_latest() == session


async def settle_by_hand(engine: Engine, session: str, project: Path) -> None:
    """Nothing is accepted before; then the user writes what is to stand there."""
    await engine.submit(cmd.HunkResolve(session=session, path="calc.py", verdict="accept"))
    await engine.wait_idle(session)
    assert (project / "calc.py").read_text() == CALC
    sides = (await engine.query(q.ConflictQuery(session=session, path="calc.py"))).sides
    assert (sides.mine_is, sides.theirs_is) == ("rounding", "rate")
    assert [(clash.mine, clash.theirs) for clash in sides.clashes] == [((ROUNDED,), (KNOWN,))]
    choice = ConflictChoice(take="text", text="    return round(price * 1.19, 2)")
    settle = cmd.ConflictResolve(session=session, path="calc.py", choices=(choice,))
    assert isinstance(await engine.submit(settle), cmd.Ack)
    await engine.wait_idle(session)
    await engine.wait_idle(session)


async def test_interrupted_they_all_stop_and_the_next_build_goes_on_in_their_sessions(project):
    never, plays = asyncio.Event(), play()
    plays["rounding"] = [plays["rounding"][0], [never]]
    plays["rate"] = [[never]]
    plays["docs"] = [plays["docs"][0], [never]]
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            progress = {update.id: update.changed for update in team.of(ev.SubagentProgressed)}
            busy = sum(bool(count) for count in progress.values()) >= 2 and isinstance(event, ev.SubagentProgressed)
            return cmd.TurnInterrupt(session=team.session) if busy else None

        plays["showing"] = [[never]]
        end = await team.build(on=on)
        assert end.reason == "interrupted"
        ended = team.of(ev.SubagentFinished)
        assert [finish.reason for finish in ended] == ["interrupted"] * 4
        state = engine.state(team.session)
        assert (dict(state.changes), {subagent.state for subagent in state.subagents.values()}) == ({}, {"ended"})
        plays.update(play())
        plays["rounding"] = [plays["rounding"][0], says("It is rounded.")]
        end = await team.build(workers=1, after=state.seq)
        again = team.of(ev.SubagentStarted)
        assert [start.again for start in again[:4]] == [True] * 4
        assert {start.id for start in again[:4]} == {finish.id for finish in ended}
        assert len({start.todo for start in again}) == 4
        assert sorted(statuses(engine, team).values()) == ["completed"] * 3 + ["in_progress", "pending"]
        texts = [message.content for message in engine.state(team.session).messages]
        assert any("Built by subagents: 3 of 5" in text for text in texts)


@pytest.mark.parametrize("how", ["failing", "limited"])
async def test_one_that_can_not_go_on_keeps_its_work_and_its_todo(project, how):
    plays = play()
    if how == "failing":
        plays["docs"] = [plays["docs"][0], [ProviderError("the model is gone", code="gone")]]
    else:
        plays = {"docs": [LOOK] * 40}
    options = {"max_steps": 12} if how == "limited" else {}
    async with open_build(project, plays, **options) as (engine, team):
        end = await team.build(workers=2)
        assert end.reason == ("failed" if how == "failing" else "limit")
        assert statuses(engine, team)["docs"] == "in_progress"
        assert "docs/use.md" not in engine.state(team.session).changes
        if how == "limited":
            assert engine.state(team.session).turns[-1].steps == 12
            return
        assert "docs" in end.message
        assert "the model is gone" in end.message
        plays["docs"] = [plays["docs"][0], says("Written.")]
        await team.build(after=engine.state(team.session).seq)
        assert statuses(engine, team)["docs"] == "completed"
        assert engine.state(team.session).changes["docs/use.md"].hunks[0].todo == "docs"


async def test_what_one_asks_is_answered_in_the_session_above_and_it_may_no_more_than_that(project):
    asks = {"questions": [{"id": "q", "prompt": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]}
    plan = {"name": "P", "overview": "O", "plan": "# P", "todos": [{"id": "a", "content": "A"}]}
    plays = {
        "docs": [
            calls(("ask_question", asks)),
            calls(("create_plan", plan), ("switch_mode", {"target_mode_id": "plan", "explanation": "x"})),
            calls(("write", {"file_path": "docs/late.md", "contents": "x"})),
            calls(("search_replace", {"file_path": PATH, "old_string": "# Shop", "new_string": "# Mine"})),
            says("Done."),
        ]
    }
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            if not isinstance(event, ev.QuestionAsked):
                return None
            assert todo_of(team, event.subagent) == "docs"
            assert event.id in engine.state(team.session).questions
            engine._find_session(team.session).emit(ev.ModeChanged(mode="ask"))
            answer = QuestionAnswer(question="q", options=(event.questions[0].options[0].id,))
            return cmd.QuestionReply(session=team.session, id=event.id, answers=(answer,))

        await team.build(on=on)
        assert not engine.state(team.session).questions
        place = SessionStore(project).sessions_path / team.session / "children"
        subagent = next(start.id for start in team.of(ev.SubagentStarted) if start.todo == "docs")
        child = fold_events(scan(place / subagent / "log.jsonl").envelopes)
        results = [message for message in child.messages if isinstance(message, ToolMessage)]
        assert [result.is_error for result in results] == [False, True, True, True, True]
        assert all("Not run" in result.content for result in results[1:])
        assert child.mode == "agent"
        assert dict(engine.state(team.session).changes) == {}
        assert list((project / ".cursor/plans").iterdir()) == [project / PATH]


@boxed
async def test_what_passes_alone_and_fails_when_merged_is_not_completed(project):
    plays, gate = play(), asyncio.Event()
    spoiled = edit('"""Prices."""', '"""No rounding here: round() is out."""')
    plays |= {"showing": [spoiled, says("Said so.")], "rate": [LOOK, says("It does.")]}
    plays["rounding"] = [plays["rounding"][0], [gate, *says("It is rounded.")]]
    (project / PATH).write_text(PLAN.replace("grep -q 'round(' calc.py", "'! grep -q \"is out\" calc.py'"))
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            if any(todo_of(team, merge.id) == "showing" for merge in team.of(ev.SubagentMerged)):
                gate.set()
            return None

        end = await team.build(on=on)
        assert [
            verification.exit_code for verification in team.of(ev.TodoVerified) if verification.id == "rounding"
        ] == [0, 1]
        assert "rounding: together with the others' changes it does not pass" in end.message
        assert statuses(engine, team)["rounding"] == "in_progress"
        assert "rounding" in {hunk.todo for hunk in engine.state(team.session).changes["calc.py"].hunks}
        plays["rounding"] = [edit("round() is out", "round() is in"), says("It passes.")]
        await team.build(after=engine.state(team.session).seq)
        begun = team.of(ev.SubagentStarted)
        assert next((start.todo, start.again) for start in begun) == ("rounding", False)
        assert statuses(engine, team)["rounding"] == "completed"


async def test_a_todo_that_is_cancelled_meanwhile_is_stopped_and_one_that_is_added_is_built(project):
    plays, never = play(), asyncio.Event()
    plays["docs"] = [plays["docs"][0], [never]]
    plays["more"] = [calls(("write", {"file_path": "more.txt", "contents": "more\n"})), says("More.")]
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            doing = isinstance(event, ev.SubagentProgressed) and todo_of(team, event.id) == "docs" and event.changed
            if not doing or "more" in (project / PATH).read_text():
                return None
            text = (project / PATH).read_text()
            at = text.index("id: docs")
            text = text[:at] + text[at:].replace("in_progress", "cancelled", 1)
            text = text.replace("---\n# Shop", "  - id: more\n    content: More\n---\n# Shop")
            (project / PATH).write_text(text)
            engine._find_session(team.session).on_disk_changed((PATH,))
            return None

        await team.build(workers=3, on=on)
        ended = {todo_of(team, finish.id): finish.reason for finish in team.of(ev.SubagentFinished)}
        assert ended["docs"] == "interrupted"
        assert (ended["more"], statuses(engine, team)["more"]) == ("done", "completed")
        assert "docs/use.md" not in engine.state(team.session).changes
        assert statuses(engine, team)["docs"] == "cancelled"


@pytest.mark.parametrize("workers", [0, 5])
async def test_how_many_work_at_once_has_bounds(project, workers):
    async with open_build(project) as (engine, team):
        reply = await engine.submit(cmd.PlanBuild(session=team.session, path=PATH, workers=workers))
        assert isinstance(reply, cmd.Reject)
        assert (reply.code, reply.hint) == ("workers_invalid", "Choose from 1 to 4.")


async def test_a_message_reaches_all_and_one_of_them_is_stopped_by_itself(project):
    plays, never, gate = play(), asyncio.Event(), asyncio.Event()
    plays["docs"] = [plays["docs"][0], [never]]
    plays["showing"] = [plays["showing"][0], [gate, *says("In euros.")]]
    async with open_build(project, plays) as (_, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            if isinstance(event, ev.SubagentProgressed) and todo_of(team, event.id) == "docs" and event.changed:
                return cmd.TurnSteer(session=team.session, text="Be quick") if not team.of(ev.TurnSteered) else None
            if isinstance(event, ev.TurnSteered):
                docs = next(start.id for start in team.of(ev.SubagentStarted) if start.todo == "docs")
                return cmd.TurnInterrupt(session=docs)
            if isinstance(event, ev.SubagentFinished) and todo_of(team, event.id) == "docs":
                gate.set()
            return None

        end = await team.build(on=on)
        assert (end.reason, end.message) == ("failed", "docs: it was stopped; building again continues it")
        ended = {todo_of(team, finish.id): finish.reason for finish in team.of(ev.SubagentFinished)}
        assert ended == {"docs": "interrupted", "showing": "done", "rounding": "done", "rate": "done"}
        place = SessionStore(project).sessions_path / team.session / "children"
        texts = [
            envelope.event.text
            for log in sorted(place.glob("*/log.jsonl"))
            for envelope in scan(log).envelopes
            if isinstance(envelope.event, ev.TurnSteered)
        ]
        assert len(texts) >= 2
        assert set(texts) == {"Be quick"}


@boxed
async def test_one_todo_alone_is_merged_with_the_check_that_passed_over_it(project):
    plays = play()
    plays["docs"][1:1] = [calls(("run_terminal_cmd", {"command": "python3 -m compileall -q docs/use.md"}))]
    async with open_build(project, plays) as (engine, team):
        await team.build(workers=2, todo="docs")
        assert statuses(engine, team) == dict.fromkeys(("rounding", "showing", "rate", "release"), "pending") | {
            "docs": "completed"
        }
        change = engine.state(team.session).changes["docs/use.md"]
        assert change.check is not None
        assert change.check.command == "python3 -m compileall -q docs/use.md"


async def test_one_that_ends_with_a_question_is_not_done_and_goes_on_when_it_is_built_again(project):
    plays = play()
    ticks = calls(("search_replace", {"file_path": PATH, "old_string": "Write the README", "new_string": "Done"}))
    plays["docs"] = [plays["docs"][0], says("Shall I go on?"), ticks, says("I did.")]
    async with open_build(project, plays) as (engine, team):
        end = await team.build(workers=2, todo="docs")
        assert (end.reason, end.message) == ("failed", "docs: It asks: Shall I go on?")
        assert statuses(engine, team)["docs"] == "in_progress"
        end = await team.build(todo="docs", after=engine.state(team.session).seq)
        assert (end.reason, statuses(engine, team)["docs"]) == ("done", "completed")
        assert [start.again for start in team.of(ev.SubagentStarted)] == [True]
        [merged] = team.of(ev.SubagentMerged)
        assert (merged.paths, merged.notes) == (("docs/use.md",), (f"What it wrote to {PATH} was left out.",))


async def test_a_todo_that_is_set_back_is_begun_anew_and_one_that_waits_for_the_user_is_not_worked_again(project):
    never, plays = asyncio.Event(), play()
    plays["docs"] = [plays["docs"][0], [never]]
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> cmd.AnyCommand | None:
            waits = len(team.of(ev.SubagentMerged)) == 3 and isinstance(event, ev.TodoChanged | ev.Notice)
            return cmd.TurnInterrupt(session=team.session) if waits else None

        await team.build(on=on)
        first = next(start.id for start in team.of(ev.SubagentStarted) if start.todo == "docs")
        assert statuses(engine, team)["docs"] == "in_progress"
        back = cmd.TodoSet(session=team.session, plan=PATH, id="docs", status="pending")
        assert isinstance(await engine.submit(back), cmd.Ack)
        await engine.wait_idle(team.session)
        plays["docs"] = play()["docs"]
        end = await team.build(
            workers=1, after=engine.state(team.session).seq
        )  # goes on with what subagents have begun
        assert (end.reason, end.message) == ("done", "")
        begun = team.of(ev.SubagentStarted)
        assert [(start.todo, start.again) for start in begun] == [("docs", False)]
        assert begun[0].id != first
        assert sorted(statuses(engine, team).values()) == ["completed"] * 3 + ["in_progress", "pending"]
