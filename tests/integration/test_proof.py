"""Proofs in a session: what a check says about each pending hunk, in a real box, with real tests."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from core.engine import Engine
from core.engine.session.proof import NO_CHECK
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.renames import list_changes
from core.state.proof import Judgement, iterate_judgements
from tests.support.agent_case import Step, says
from tests.support.checked import AUTO, make_checked_project, run, write
from tests.support.configured import configured
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import access

CHECK = "python -m pytest -q"
OLD = '''"""Prices."""


def price(total):
    return total


def label(total):
    return str(total)


def members():
    return []


def note():
    return "old"
'''
NEW = '''"""Prices of the shop."""


def price(total):
    return total * 2


def label(total):
    return f"{total}"


def members():
    return [1]


def note():
    return "new"
'''
TESTS = '''from shop.price import label, members, price


def test_price():
    assert price(2) == 4


def test_members():
    members()


def test_label():
    assert label(3) == "3"
'''
OLD_TESTS = TESTS.replace("== 4", "== 2")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    root = make_checked_project(tmp_path, monkeypatch)
    (root / "shop/price.py").write_text(OLD)
    (root / "tests/test_price.py").write_text(OLD_TESTS)
    return root


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
    steps = (write("shop/price.py", NEW), write("tests/test_price.py", TESTS), run(CHECK))
    async with after_turn(project, *steps) as (engine, session):
        [*_, end] = await read_until(engine, session, ev.ProofFinished)
        assert (end.reason, end.stopped) == ("", False)
        words = {place: judgement.word for place, judgement in judge(engine, session).items()}
        assert words == {}
