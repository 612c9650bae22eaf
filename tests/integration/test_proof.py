"""Proofs in a session: what a check says about each pending hunk, in a real box, with real tests."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from core.engine import Engine
from core.engine.session.proof import NO_CHECK, start_after_turn
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.renames import list_changes
from core.state.proof import Judgement, iterate_judgements
from tests.support.agent_case import Step, says
from tests.support.checked import AUTO, run, write
from tests.support.configured import configured
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.proven import CHECK, NEW, OLD, OLD_TESTS, TESTS, WORK, make_proven_project
from tests.support.story import access


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_proven_project(tmp_path, monkeypatch)


@contextlib.asynccontextmanager
async def after_turn(project: Path, *steps: Step):
    async with session_in(project, access([*steps, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        yield engine, session


async def prove(engine: Engine, session: str, **options: object) -> list[ev.AnyEvent]:
    before = engine.state(session).seq
    await submit(engine, cmd.ChangesProve(session=session, **options))
    return await read_until(engine, session, ev.ProofFinished, after=before)


def judge(engine: Engine, session: str) -> dict[str, Judgement | None]:
    state = engine.state(session)
    return {
        f"{change.path}:{hunk.new_start}": judgement
        for change, hunk, judgement in iterate_judgements(state.review.proof, list_changes(state.changes))
    }


async def test_a_turn_is_proven_at_its_end(project):
    async with after_turn(project, *WORK) as (engine, session):
        [*_, end] = await read_until(engine, session, ev.ProofFinished)
        assert (end.reason, end.stopped) == ("", False)
        words = {place: judgement.word for place, judgement in judge(engine, session).items() if judgement}
        assert words["shop/price.py:1"] == "folded"
        assert words["shop/price.py:5"] == "checked"
        assert words["shop/price.py:13"] == "unnoticed"
        assert words["shop/price.py:17"] == "never_ran"
        proof = engine.state(session).review.proof
        assert proof.check is not None
        assert (proof.check.command, proof.check.canary, proof.check.tests) == (CHECK, "noticed", 3)
    assert (project / "shop/price.py").read_text() == OLD


async def test_a_turn_without_a_check_starts_none_and_one_that_is_asked_for_knows_the_kinds(project):
    async with after_turn(project, write("shop/price.py", NEW)) as (engine, session):
        assert engine.state(session).review.proof.check is None
        [*_, end] = await prove(engine, session)
        assert end.reason == NO_CHECK
        judgements = judge(engine, session)
        assert judgements["shop/price.py:1"] is not None
        assert judgements["shop/price.py:1"].text == "documentation"
        assert judgements["shop/price.py:5"] is not None
        assert judgements["shop/price.py:5"].word == "unknown"


async def test_tests_that_ran_in_a_command_that_is_no_check_on_its_own_are_named_with_the_reason(project):
    check = run(f"{sys.executable} -m pytest -q")
    async with after_turn(project, write("shop/price.py", NEW), check) as (engine, session):
        [*_, end] = await prove(engine, session)
        assert "starts a program from outside the project" in end.reason
        assert "`commands.checks`" in end.reason
        reply = await engine.submit(cmd.TurnSubmit(session=session, text="/bisect"))
        assert isinstance(reply, cmd.Reject)
        assert reply.message == end.reason


async def test_an_edit_makes_stale_what_depended_on_it_and_the_rest_is_not_run_again(project):
    extra = "def extra():\n    return 1\n"
    tests = "from shop.extra import extra\n\n\ndef test_extra():\n    assert extra() == 1\n"
    steps = (*WORK[:-1], write("shop/extra.py", extra), write("tests/test_extra.py", tests), WORK[-1])
    async with after_turn(project, *steps) as (engine, session):
        await read_until(engine, session, ev.ProofFinished)
        state = engine.state(session)
        runs = state.review.proof.check.runs
        hunk = state.changes["shop/extra.py"].hunks[0]
        text = extra.replace("1", "2")
        await submit(engine, cmd.HunkEdit(session=session, path="shop/extra.py", hunk=hunk.id, text=text))
        judgements = judge(engine, session)
        assert not judgements["shop/price.py:5"].is_stale
        await prove(engine, session)
        assert state.review.proof.check.runs < runs
        assert state.review.proof.check.problem


async def test_it_gives_way_and_goes_on_where_it_was(project):
    async with after_turn(project, *WORK) as (engine, session):
        await read_until(engine, session, ev.EvidenceRecorded)
        await submit(engine, cmd.ProofStop(session=session))
        [*_, end] = await read_until(engine, session, ev.ProofFinished)
        assert end.stopped
        assert not list(engine._find_session(session).directory.path.glob("proof_*"))
        [*_, end] = await prove(engine, session)
        assert (end.reason, end.stopped) == ("", False)


async def test_a_verdict_stops_it(project):
    async with after_turn(project, *WORK) as (engine, session):
        await read_until(engine, session, ev.EvidenceRecorded)
        hunk = engine.state(session).changes["shop/price.py"].hunks[0]
        verdict = cmd.HunkResolve(session=session, path="shop/price.py", hunks=(hunk.id,), verdict="accept")
        await submit(engine, verdict)
        [*_, end] = await read_until(engine, session, ev.ProofFinished)
        assert end.stopped


async def test_what_is_proven_is_accepted_and_tests_are_not(project):
    async with after_turn(project, *WORK) as (engine, session):
        await read_until(engine, session, ev.ProofFinished)
        await submit(engine, cmd.ProvenAccept(session=session))
        assert (project / "shop/price.py").read_text() == OLD.replace("return total", "return total * 2", 1).replace(
            "Prices.", "Prices of the shop."
        )
        assert (project / "tests/test_price.py").read_text() == OLD_TESTS
        again = await engine.submit(cmd.ProvenAccept(session=session))
        assert isinstance(again, cmd.Reject)


async def test_a_rejected_hunk_makes_the_others_stale(project):
    async with after_turn(project, *WORK) as (engine, session):
        await read_until(engine, session, ev.ProofFinished)
        hunk = next(hunk for hunk in engine.state(session).changes["shop/price.py"].hunks if hunk.new_start == 17)
        verdict = cmd.HunkResolve(session=session, path="shop/price.py", hunks=(hunk.id,), verdict="reject")
        await submit(engine, verdict)
        assert judge(engine, session)["shop/price.py:5"].is_stale
        refused = await engine.submit(cmd.ProvenAccept(session=session))
        assert isinstance(refused, cmd.Reject)


async def test_a_test_is_asked_for_with_the_hunk_and_its_gap(project):
    async with after_turn(project, *WORK, says("Done."), says("A test.")) as (engine, session):
        await read_until(engine, session, ev.ProofFinished)
        state = engine.state(session)
        hunk = next(hunk for hunk in state.changes["shop/price.py"].hunks if hunk.new_start == 13)
        before = state.seq
        await submit(engine, cmd.HunkTestRequest(session=session, path="shop/price.py", hunk=hunk.id))
        await read_until(engine, session, ev.TurnFinished, after=before)
        messages = [str(message.content) for message in state.messages]
        instruction = next(text for text in messages if "Write a test that notices this change" in text)
        assert "+    return [1]" in instruction
        assert "Now all tests pass without it." in instruction
        assert sum("No test notices these" in text for text in messages) == 1


async def test_every_hunk_checked_can_be_a_goal(project):
    fixed = TESTS.replace("    members()\n", "    assert members() == [1]\n") + (
        "\n\ndef test_note():\n    from shop.price import note\n\n    assert note() == 'new'\n"
    )
    changed = NEW.replace('f"{total}"', "str(total)")  # another spelling of the same can't be noticed
    steps = (
        write("shop/price.py", changed),
        *WORK[1:],
        says("Done."),
        write("tests/test_price.py", fixed),
        says("It is."),
    )
    async with session_in(project, access([*steps])) as (engine, session):
        goal = cmd.TurnSubmit(session=session, text="go", goal="every code hunk checked", rounds=3)
        await submit(engine, goal)
        events = await read_until(engine, session, ev.TurnFinished)
        checks = [event for event in events if isinstance(event, ev.GoalChecked)]
        assert [check.outcome for check in checks] == ["unmet", "met"]
        assert "shop/price.py:17" in checks[0].output


async def test_a_resumed_session_is_proven_if_nothing_is_known(project):
    configured(f"{AUTO}\n[proof]\noff = true\n")
    async with after_turn(project, *WORK) as (engine, session):
        assert engine.state(session).review.proof.check is None
        name = session
    configured(AUTO)
    async with session_in(project, access([says("-")]), cmd.SessionResume(session=name)) as (engine, session):
        [*_, end] = await read_until(engine, session, ev.ProofFinished)
        assert end.reason == ""


@pytest.mark.parametrize("text", ['[commands]\npolicy = "confirm"\n', f"{AUTO}\n[proof]\noff = true\n"])
async def test_it_does_not_begin_where_commands_are_asked_about_or_it_is_off(project, text):
    async with after_turn(project, *WORK) as (engine, session):
        await engine.submit(cmd.ProofStop(session=session))
        name = session
    configured(text)
    async with session_in(project, access([says("-")]), cmd.SessionResume(session=name)) as (engine, session):
        open_session = engine._find_session(session)
        open_session.review.proof.check = None
        start_after_turn(open_session)
        assert not open_session.proof_slot.is_running


async def test_a_rule_that_denies_the_check_is_kept_when_it_is_asked_for(project):
    configured(f'{AUTO}\n[permissions]\ndeny = ["Shell(make *)"]\n')
    async with after_turn(project, write("shop/price.py", NEW)) as (engine, session):
        [*_, end] = await prove(engine, session, check="make check")
        assert end.reason.startswith("`make check` was not run:")


async def test_the_call_that_broke_a_check_is_found(project):
    wrong = TESTS.replace("== 4", "== 5")
    steps = (*WORK[:2], write("docs/a.md", "# A\n"), write("tests/test_price.py", wrong), write("docs/b.md", "# B\n"))
    async with after_turn(project, *steps) as (engine, session):
        events = await run_turn(engine, session, f"/bisect {CHECK}")
        [document] = [event.document for event in events if isinstance(event, ev.DocumentFinished)]
        assert "broke with call 4 of 5 calls: `write` on `tests/test_price.py`" in document.content
        assert "+    assert price(2) == 5" in document.content
        envelopes = list[ev.Envelope]()
        engine._find_session(session).log.read_all(envelopes.append)
        requested = [envelope.event for envelope in envelopes if isinstance(envelope.event, ev.ToolRequested)]
        [call] = [event for event in requested if "== 5" in event.arguments]
        assert document.metadata.about == call.document != ""
        assert events[-1].reason == "done"
        green = await run_turn(engine, session, "/bisect python -c pass")
        [document] = [event.document for event in green if isinstance(event, ev.DocumentFinished)]
        assert document.content == "`python -c pass` passes over the files as they are now."
