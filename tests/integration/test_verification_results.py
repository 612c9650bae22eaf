"""Results of checks that ran again: what they are about, how long they hold, and how a run is stopped."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from core.engine import Engine
from core.engine.session.verification import CHANGED_MEANWHILE, STOPPED, Verifier
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.shell.verification.clean_run import run_clean
from tests.support.agent_case import Step, calls, says
from tests.support.checked import AUTO, GOOD, PRICE, TEST, WRONG, make_checked_project, run, write
from tests.support.configured import configured
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import access

CHECK = "python -m pytest -q"
PLAN = ".cursor/plans/prices_01234567.plan.md"
MORE = f"{TEST}\n\ndef test_more():\n    assert price(0) == 0\n"


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    return make_checked_project(tmp_path, monkeypatch)


@contextlib.asynccontextmanager
async def after_turn(project: Path, *steps: Step):
    async with session_in(project, access([*steps, says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        yield engine, session


async def verify(engine: Engine, session: str, **options: bool) -> list[ev.AnyEvent]:
    before = engine.state(session).seq
    await submit(engine, cmd.ChangesVerify(session=session, **options))
    return await read_until(engine, session, ev.VerificationFinished, after=before)


def count_runs(events: list[ev.AnyEvent]) -> int:
    return sum(isinstance(event, ev.VerificationRecorded) for event in events)


def edit_disk(project: Path) -> None:
    (project / "docs/guide.md").write_text("# Another\n")


def touch_disk(project: Path) -> None:
    os.utime(project / "docs/guide.md", ns=(1, 1))
    (project / "shop/price.py").write_text(PRICE)


@pytest.mark.parametrize(("act", "runs"), [(touch_disk, 0), (edit_disk, 1)])
async def test_n27_the_same_content_needs_no_second_run_and_any_other_does(project, act, runs):
    steps = (write("shop/price.py", GOOD), write("tests/test_price.py", MORE), run(CHECK))
    async with after_turn(project, *steps) as (engine, session):
        first = await verify(engine, session, tests_only=True)
        act(project)
        second = await verify(engine, session, tests_only=True)
        assert (count_runs(first), count_runs(second)) == (1, runs)
        for events in (first, second):
            assert "with tests or settings changed here (tests/test_price.py)" in events[-1].reason
        check = engine.state(session).changes["shop/price.py"].check
        assert check is not None
        assert (check.is_verified, check.changed_here) == (False, ("tests/test_price.py",))
    assert (project / "shop/price.py").read_text() == PRICE


async def test_n27_a_result_names_command_counts_and_content_and_ends_with_an_edit(project):
    async with after_turn(
        project, write("shop/price.py", GOOD), write("tests/test_more.py", MORE), run(CHECK)
    ) as opened:
        engine, session = opened
        events = await verify(engine, session)
        [result] = [event.result for event in events if isinstance(event, ev.VerificationRecorded)]
        assert (result.command, result.outcome, result.exit_code, result.passed, result.failed) == (
            CHECK,
            "passed",
            0,
            3,
            0,
        )
        assert set(result.text) == {"shop/price.py", "tests/test_more.py"}
        assert result.content
        assert result.changed_here == ("tests/test_more.py",)
        hunk = engine.state(session).changes["shop/price.py"].hunks[0].id
        edited = "def price(amount):\n    return amount * 3\n"
        await submit(engine, cmd.HunkEdit(session=session, path="shop/price.py", hunk=hunk, text=edited))
        assert engine.state(session).changes["shop/price.py"].check is None


@pytest.mark.parametrize("place", ["shop/price.py", "docs/guide.md", "new.txt"])
async def test_n27_what_moves_while_the_checks_run_is_not_accepted(project, place):
    async with after_turn(project, write("shop/price.py", GOOD), run(CHECK)) as (engine, session):
        before = engine.state(session).seq

        async def save_meanwhile(_: str) -> None:
            (project / place).write_text("# mine\n")

        await Verifier(engine._find_session(session), cmd.ChangesVerify(), save_meanwhile).run()
        events = await read_until(engine, session, ev.VerificationFinished, after=before)
        assert events[-1].reason == CHANGED_MEANWHILE
        assert events[-1].accepted == ()
    assert (project / "shop/price.py").read_text() == ("# mine\n" if place == "shop/price.py" else PRICE)


async def test_n27_a_run_is_stopped_like_a_command_and_accepts_nothing(project):
    hangs = "import os\n\n\ndef test_hangs():\n    os.read(os.pipe()[0], 1)\n"
    (project / "tests/test_hangs.py").write_text(hangs)
    configured(AUTO + f'checks = ["{CHECK}"]\n')
    async with after_turn(project, write("shop/price.py", GOOD)) as (engine, session):
        before = engine.state(session).seq
        await engine.submit(cmd.ChangesVerify(session=session))
        await read_until(engine, session, ev.VerificationProgressed, after=before)
        again = await engine.submit(cmd.ChangesVerify(session=session))
        assert isinstance(again, cmd.Reject)
        assert again.code == "is_verifying"
        assert engine.state(session).changes
        await submit(engine, cmd.TurnInterrupt(session=session))
        events = await read_until(engine, session, ev.VerificationFinished, after=before)
        assert events[-1].reason == STOPPED
    assert (project / "shop/price.py").read_text() == PRICE


async def test_n27_a_verdict_keeps_that_its_check_was_verified_and_the_evidence_of_a_request_says_which_was_not(
    project,
):
    from core.engine.commits.pull_request import list_evidence

    async with after_turn(project, write("shop/price.py", GOOD), run(CHECK)) as (engine, session):
        await verify(engine, session, tests_only=True)
        state = engine.state(session)
        [verdict] = state.review.verdicts
        assert verdict.check is not None
        assert verdict.check.is_verified
        assert (project / "shop/price.py").read_text() == GOOD
        state.review.commits.append(ev.CommitMade(id="1", branch="x", subject="s", edits=(verdict.id,), files=()))
        assert list_evidence(state)[0] == [f"`{CHECK}` (1 passed), run again in a clean layer"]


async def test_n27_what_only_the_agent_ran_is_named_so_in_the_evidence_of_a_request(project):
    from core.engine.commits.pull_request import list_evidence

    async with after_turn(project, write("shop/price.py", GOOD), run(CHECK)) as (engine, session):
        await submit(engine, cmd.HunkResolve(session=session, path="shop/price.py", verdict="accept"))
        state = engine.state(session)
        [verdict] = state.review.verdicts
        state.review.commits.append(ev.CommitMade(id="1", branch="x", subject="s", edits=(verdict.id,), files=()))
        assert list_evidence(state)[0] == [f"`{CHECK}` (1 passed), run by the agent, not verified again"]


@pytest.mark.parametrize(
    ("code", "verify", "status"),
    [
        (GOOD, "python -m pytest -q", "completed"),
        (WRONG, ".venv/bin/pytest -q", "in_progress"),
        (GOOD, "test -e build/built", "in_progress"),
    ],
)
async def test_n27_a_todo_is_completed_only_by_a_run_of_its_command_in_a_clean_layer(project, code, verify, status):
    forge = "mkdir -p build && touch build/built && printf '#!/bin/sh\\necho 3 passed\\n' > .venv/bin/pytest"
    (project / ".cursor/plans").mkdir(parents=True)
    todos = f"todos:\n  - id: a\n    content: Price it\n    verify: {verify}\n"
    (project / PLAN).write_text(f"---\nname: Prices\n{todos}---\n# Body\n")
    begin = calls(("todo_write", {"todos": [{"id": "a", "status": "in_progress"}]}))
    end = calls(("todo_write", {"todos": [{"id": "a", "status": "completed"}]}))
    steps = (begin, write("shop/price.py", code), run(forge), end, *[says("Done.")] * 4)
    async with session_in(project, access(steps)) as (engine, session):
        await run_turn(engine, session, cmd.PlanBuild(session=session, path=PLAN))
        [todo] = engine.state(session).todos
        assert todo.status == status
        proof = engine.state(session).verifications["a"]
        assert proof.has_passed is (status == "completed")
        assert not proof.is_unboxed


async def test_n27_the_question_before_a_verification_names_commands_and_files(project):
    steps = (write("shop/price.py", GOOD), write("sitecustomize.py", "x = 1\n"), run(CHECK))
    async with after_turn(project, *steps) as (engine, session):
        answer = await engine.query(q.VerificationQuery(session=session, tests_only=True))
        assert answer == q.VerificationAnswer(commands=(CHECK,), paths=("shop/price.py",))
        nothing = await engine.query(q.VerificationQuery(session=session))
        assert nothing == answer


async def test_n27_nothing_of_a_clean_run_is_left_and_the_next_command_sees_none_of_it(project):
    async with after_turn(project, write("shop/price.py", GOOD)) as (engine, session):
        host = engine._find_session(session).terminal.host
        places = set(host.shadow.layers.location.iterdir())
        command = "rm -r docs; echo spoiled > shop/price.py; mkdir -p build ~/.cache; touch build/x ~/.cache/x; umask"
        result = await run_clean(host, dict(engine.state(session).changes), command, lambda _: None)
        assert (result.exit_code, result.output) == (0, "0022\n")
        left = set(host.shadow.layers.location.iterdir()) - places
        assert {path.name for path in left} <= {"used"}  # an empty file whose time is that of the last command
        assert host.shadow.read("shop/price.py") == GOOD.encode()
        assert (project / "docs/guide.md").is_file()
        again = await run_clean(host, {}, "ls build ~/.cache; cat shop/price.py", lambda _: None)
        assert again.output.endswith(PRICE)
        assert "x" not in again.output.removesuffix(PRICE).split()
