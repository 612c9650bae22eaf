"""A prompt that is tried several times: side by side, compared by the same command, taken whole or hunk by hunk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from core.engine import Engine, EngineOptions
from core.engine.shared.models import ModelAccess
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, Message
from core.protocol.queries import CandidatesAnswer, CandidatesQuery, TriedCandidate
from core.providers.base import Delta, ModelInfo, ModelRequest
from tests.support.agent_case import Step, calls, played, says
from tests.support.box_tiers import offered
from tests.support.default_model import access_to
from tests.support.subagents import CALC, edit, project_at

boxed = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="commands need a box")
MODELS = ("openai/one", "openai/two", "openai/three")
GROSS, SHOWN = "    return price * (1 + RATE)", "    return str(price)"
TEST = "python3 -m unittest test_calc.py"
CASE = "import unittest\nimport calc\n\n\nclass T(unittest.TestCase):\n    def test(self):\n"
CASE += "        self.assertEqual(calc.gross(0.111), 0.13)\n"


def run(command: str) -> Step:
    return calls(("run_terminal_cmd", {"command": command}))


def write(path: str, text: str) -> Step:
    return calls(("write", {"file_path": path, "contents": text}))


ONE = [edit(GROSS, "    return round(price * (1 + RATE), 2)"), run(TEST), says("Rounded in gross.")]
TWO = [edit(SHOWN, '    return f"{price:.2f} EUR"'), write("docs/use.md", "Use it.\n"), says("Shown in euros.")]
THREE = [
    edit(GROSS, "    return int(price * 120) / 100"),
    edit(SHOWN, '    return f"{price} EUR"'),
    says("Whole cents."),
]


class Candidates:
    """Plays the steps of the model that is asked; a history without an answer of its own is where each begins."""

    name = "crew"

    def __init__(self, steps: Sequence[Step], said_before: int) -> None:
        self._steps, self._said_before = steps, said_before

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        done = _count_said(request.messages) - self._said_before
        async for delta in played(self._steps[done] if done < len(self._steps) else says("Done.")):
            yield delta

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def close(self) -> None:
        return None


def _count_said(messages: Sequence[Message]) -> int:
    return sum(isinstance(message, AssistantMessage) and not message.interrupted for message in messages)


def access(plays: dict[str, Sequence[Step]], said_before: int = 0) -> ModelAccess:
    return access_to(
        lambda model, _settings: (Candidates(plays.get(model, [says("Hello.")]), said_before), model),
        MODELS[0],
        cost=0.25,
    )


@contextlib.asynccontextmanager
async def opened(project: Path, plays: dict[str, Sequence[Step]], before: int = 0) -> AsyncIterator[tuple[Engine, str]]:
    engine = Engine(project, options=EngineOptions(watch=False), models=access(plays, before))
    reply = await engine.submit(cmd.SessionOpen(model=MODELS[0]))
    assert isinstance(reply, cmd.Ack), reply
    try:
        yield engine, reply.session
    finally:
        await engine.close()


async def follow(
    engine: Engine,
    command: cmd.AnyCommand,
    until: Callable[[ev.AnyEvent], bool],
    *,
    on: Callable[[ev.AnyEvent], object] = bool,
) -> list[ev.AnyEvent]:
    """Send a command, say yes to commands, and return the events until one is the last."""
    seen: list[ev.AnyEvent] = []
    after = engine.state(command.session).seq
    async with contextlib.aclosing(engine.events(command.session, after=after)) as stream:
        reply = await engine.submit(command)
        assert isinstance(reply, cmd.Ack), reply
        async for envelope in stream:
            seen.append(envelope.event)
            on(envelope.event)
            if isinstance(envelope.event, ev.ApprovalRequested):
                yes = cmd.ApprovalAnswer(session=command.session, id=envelope.event.id, decision="allow_once")
                assert isinstance(await engine.submit(yes), cmd.Ack)
            if until(envelope.event):
                return seen
    raise AssertionError("the events ended")


def has_ended(event: ev.AnyEvent) -> bool:
    return isinstance(event, ev.TurnFinished)


async def compare(engine: Engine, session: str) -> tuple[TriedCandidate, ...]:
    answer = await engine.query(CandidatesQuery(session=session))
    assert isinstance(answer, CandidatesAnswer), answer
    return answer.candidates


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "project")
    (root / "test_calc.py").write_text(CASE)
    return root


PLAYS: dict[str, Sequence[Step]] = dict(zip(MODELS, (ONE, TWO, THREE), strict=True))


@boxed
async def test_three_models_are_compared_by_one_command_and_hunks_of_two_are_taken(project):
    async with opened(project, PLAYS) as (engine, session):
        asked = cmd.BestRun(session=session, text="Make the prices right", models=MODELS)
        seen = await follow(engine, asked, has_ended)
        assert [end.reason for end in seen if isinstance(end, ev.TurnFinished)] == ["done"]
        state = engine.state(session)
        assert not state.changes, "nothing is taken by itself"
        one, two, three = await compare(engine, session)
        assert [candidate.title for candidate in (one, two, three)] == ["1 · one", "2 · two", "3 · three"]
        assert [candidate.check and candidate.check.has_passed for candidate in (one, two, three)] == [
            True,
            False,
            True,
        ]
        assert {candidate.check and candidate.check.command for candidate in (one, two, three)} == {TEST}
        assert [
            [(diff.change.path, diff.change.added) for diff in candidate.changes] for candidate in (one, two, three)
        ] == [
            [("calc.py", 1)],
            [("calc.py", 1), ("docs/use.md", 1)],
            [("calc.py", 2)],
        ]
        assert one.usage.cost == pytest.approx(0.75)
        assert state.turns[-1].usage.cost == pytest.approx(0.25 * 9), "all of them count for the turn"
        content = state.messages[-1].content
        assert f"- 1 · one: 1 file, +1 −1, `{TEST}` passed" in content
        assert "- 2 · two: 2 files, +2 −1" in content

        second = three.changes[0].change.hunks[1].id
        picks = (cmd.CandidatePick(id=one.id), cmd.CandidatePick(id=three.id, path="calc.py", hunks=(second,)))
        take = cmd.BestTake(session=session, picks=picks)
        seen = await follow(engine, take, lambda event: isinstance(event, ev.CommandRan))
        ran = seen[-1]
        assert isinstance(ran, ev.CommandRan)
        assert (ran.command, ran.exit_code) == (TEST, 0)
        pending = engine._sessions[session].shadow.read("calc.py")
        assert pending is not None
        assert pending.decode() == CALC.replace(GROSS, "    return round(price * (1 + RATE), 2)").replace(
            SHOWN, '    return f"{price} EUR"'
        )
        assert (project / "calc.py").read_text() == CALC
        change = state.changes["calc.py"]
        assert change.check is not None
        assert change.check.has_passed
        assert [candidate.state for candidate in await compare(engine, session)] == ["taken", "ended", "taken"]


async def test_hunks_that_clash_wait_as_competing_versions(project):
    async with opened(project, PLAYS) as (engine, session):
        await follow(engine, cmd.BestRun(session=session, text="Right prices", models=MODELS), has_ended)
        one, _, three = await compare(engine, session)
        take = cmd.BestTake(session=session, picks=(cmd.CandidatePick(id=one.id), cmd.CandidatePick(id=three.id)))
        seen = await follow(engine, take, lambda event: isinstance(event, ev.Notice) and "conflicts" in event.message)
        assert ("3 · three: it conflicts with pending changes in calc.py.") in seen[-1].message  # type: ignore[union-attr]
        [version] = engine.state(session).changes["calc.py"].competing_versions
        assert version.by == three.id


async def test_each_knows_what_was_said_before_and_begins_from_what_is_pending(project):
    plays = {MODELS[0]: [says("I know."), edit(SHOWN, "    return repr(price)"), says("It is done.")]}
    async with opened(project, plays) as (engine, session):
        await follow(engine, cmd.TurnSubmit(session=session, text="Remember: RATE"), has_ended)
        engine._sessions[session].shadow.write("calc.py", CALC.replace("0.2", "0.25").encode())
        await follow(engine, cmd.BestRun(session=session, text="And now?", models=("", "")), has_ended)
        first, second = await compare(engine, session)
        assert [first.title, second.title] == ["candidate 1", "candidate 2"]
        assert [diff.change.added for diff in first.changes] == [1], "what was pending before is none of its work"
        [sent] = [message for message in engine.state(session).messages if "And now?" in message.content]
        assert "tried 2 times" not in sent.content
        await follow(
            engine,
            cmd.BestTake(session=session, picks=(cmd.CandidatePick(id=second.id, path="calc.py"),)),
            lambda event: isinstance(event, ev.SubagentMerged),
        )
        pending = engine._sessions[session].shadow.read("calc.py") or b""
        assert b"0.25" in pending
        assert b"repr(price)" in pending


async def test_one_fails_one_is_stopped_and_the_others_are_compared(project):
    gate = asyncio.Event()
    plays = {MODELS[0]: [*ONE[:1], says("Rounded.")], MODELS[1]: [[gate, *says("Never.")]]}
    async with opened(project, plays) as (engine, session):
        names: list[str] = []

        def stop(event: ev.AnyEvent) -> None:
            if isinstance(event, ev.SubagentStarted):
                names.append(event.id)
            if isinstance(event, ev.SubagentProgressed) and len(names) == 2 and event.id == names[0] and event.changed:
                stopping.append(asyncio.ensure_future(engine.submit(cmd.TurnInterrupt(session=names[1]))))

        stopping: list[asyncio.Future[cmd.Reply]] = []
        asked = cmd.BestRun(session=session, text="Prices", models=MODELS[:2])
        await follow(engine, asked, has_ended, on=stop)
        await asyncio.gather(*stopping)
        one, two = await compare(engine, session)
        assert [diff.change.path for diff in one.changes] == ["calc.py"]
        assert two.changes == ()
        assert engine.state(session).subagents[two.id].reason == "interrupted"


async def test_who_is_stopped_ends_at_once_and_who_waits_for_the_others_says_so_and_does_not_count_it(project):
    gate, never = asyncio.Event(), asyncio.Event()
    slow = [[gate, *edit(SHOWN, '    return f"{price} EUR"')], says("In euros.")]
    plays = {MODELS[0]: [*ONE[:1], says("Rounded.")], MODELS[1]: [[never]], MODELS[2]: slow}
    async with opened(project, plays) as (engine, session):
        names: list[str] = []
        stopping: list[asyncio.Future[cmd.Reply]] = []
        ended: dict[str, ev.SubagentFinished] = {}

        def go_on(event: ev.AnyEvent) -> None:
            if isinstance(event, ev.SubagentStarted):
                names.append(event.id)
            waits = ev.SubagentAction(text="waiting for the others", status="running")
            if isinstance(event, ev.SubagentProgressed) and waits in event.acts and not stopping:
                stopping.append(asyncio.ensure_future(engine.submit(cmd.TurnInterrupt(session=names[1]))))
            if isinstance(event, ev.SubagentFinished):
                ended[event.id] = event
                gate.set()

        asked = cmd.BestRun(session=session, text="Prices", models=MODELS)
        await follow(engine, asked, has_ended, on=go_on)
        await asyncio.gather(*stopping)
        assert next(iter(ended)) == names[1], "while the others were at work"
        one, three = ended[names[0]], ended[names[2]]
        assert one.duration_ms < three.duration_ms
        assert one.acts[-1].text == "Rounded."


@pytest.mark.parametrize(
    ("models", "mode", "code"),
    [(("",), "agent", "best_count"), (("",) * 5, "agent", "best_count"), (("", ""), "ask", "mode_keeps_nothing")],
)
async def test_what_can_not_be_compared_is_refused(project, models, mode, code):
    async with opened(project, {}) as (engine, session):
        assert isinstance(await engine.submit(cmd.ModeSet(session=session, mode=mode)), cmd.Ack)
        await engine.wait_idle(session)
        refused = await engine.submit(cmd.BestRun(session=session, text="x", models=models))
        assert isinstance(refused, cmd.Reject)
        assert refused.code == code


async def test_what_is_not_there_can_not_be_taken(project):
    async with opened(project, PLAYS) as (engine, session):
        await follow(engine, cmd.BestRun(session=session, text="Prices", models=MODELS[:2]), has_ended)
        one, _ = await compare(engine, session)
        wrong = {
            "nothing_chosen": (),
            "candidate_unknown": (cmd.CandidatePick(id="sub_x"),),
            "state_unusable": (cmd.CandidatePick(id=one.id, path="calc.py", hunks=("h_none",)),),
        }
        for code, picks in wrong.items():
            refused = await engine.submit(cmd.BestTake(session=session, picks=picks))
            assert isinstance(refused, cmd.Reject)
            assert refused.code == code, refused
        assert not engine.state(session).changes


async def test_candidates_are_there_after_a_restart(project):
    async with opened(project, PLAYS) as (engine, session):
        await follow(engine, cmd.BestRun(session=session, text="Prices", models=MODELS[:2]), has_ended)
        before = await compare(engine, session)
    again = Engine(project, options=EngineOptions(watch=False), models=access(PLAYS))
    try:
        assert isinstance(await again.submit(cmd.SessionResume(session=session)), cmd.Ack)
        assert await compare(again, session) == before
        take = cmd.BestTake(session=session, picks=(cmd.CandidatePick(id=before[1].id),))
        await follow(again, take, lambda event: isinstance(event, ev.SubagentMerged))
        assert set(again.state(session).changes) == {"calc.py", "docs/use.md"}
    finally:
        await again.close()
