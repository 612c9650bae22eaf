"""Three models, each over the wire of its SDK, try one prompt in a repository of a thousand files on a strict server:
each is judged by the same tests, and hunks of two make the result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.queries import CandidatesAnswer, CandidatesQuery, TriedCandidate
from tests.support import wires
from tests.support.box_tiers import offered
from tests.support.committed import OWN, commit_own_sources
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.program import environment, run
from tests.support.provider_server import Script, provider_server
from tests.support.provider_streams import Call, Step

pytestmark = pytest.mark.skipif(
    not any(tier.can_run_unasked for tier in offered()), reason="commands need a strong box"
)
PLACE = "tui/quantities.py"
COST = next(line for line in (OWN / PLACE).read_text().splitlines() if '"< $0.0001"' in line)
CENTS, EURO = '    return f"${cost:.2f}"', '    return f"{cost:.2f} EUR"'
NOW, MOMENT = '    return "just now"', '    return "a moment ago"'
TEST = "python3 -m unittest test_quantities.py"
CASE = """import unittest

from tui.quantities import format_cost


class Quantities(unittest.TestCase):
    def test_cost(self):
        self.assertEqual(format_cost(1.234), "$1.23")
"""
MODELS = tuple(wires.MODELS.values())


def edit(old: str, new: str) -> Call:
    return Call(name="search_replace", arguments={"file_path": PLACE, "old_string": old, "new_string": new})


PLAYS: Mapping[str, Script] = {
    "deepseek-chat": [
        Step(calls=[edit(COST, CENTS)]),
        Step(calls=[Call(name="run_terminal_cmd", arguments={"command": TEST})]),
        "In cents.",
    ],
    "gpt-6-sol": [Step(calls=[edit(COST, EURO)]), "In euros."],
    "claude-opus-5-5": [Step(calls=[edit(COST, CENTS), edit(NOW, MOMENT)]), "In cents, and a moment ago."],
}


async def compare(engine: Engine, session: str) -> Sequence[TriedCandidate]:
    answer = await engine.query(CandidatesQuery(session=session))
    assert isinstance(answer, CandidatesAnswer), answer
    return answer.candidates


async def test_three_wires_try_a_prompt_the_same_tests_judge_them_and_hunks_of_two_are_taken(tmp_path, monkeypatch):
    project = commit_own_sources(tmp_path / "project", {"test_quantities.py": CASE})
    server_of = provider_server(strict=True, models=wires.NAMES, plays=PLAYS, find_play=lambda body: body["model"])
    async with server_of as server:
        wires.configure(monkeypatch, server, '[commands]\npolicy = "auto"\n')
        async with session_in(project, model=MODELS[0], trust=True) as (engine, session):
            await run_turn(engine, session, cmd.BestRun(session=session, text="Costs in cents", models=MODELS))
            tried = await compare(engine, session)
            check_tried(tried)
            await take_two(engine, session, tried, project)
        assert server.rules is not None
        assert server.rules.refusals == []
        assert {request.path for request in server.answered} == {
            "/v1/chat/completions",
            "/v1/responses",
            "/v1/messages",
        }


def check_tried(tried: Sequence[TriedCandidate]) -> None:
    assert [candidate.title for candidate in tried] == [
        f"{n} · {model.partition('/')[2]}" for n, model in enumerate(MODELS, 1)
    ]
    assert [candidate.check and (candidate.check.command, candidate.check.has_passed) for candidate in tried] == [
        (TEST, True),
        (TEST, False),
        (TEST, True),
    ]
    assert [[len(diff.change.hunks) for diff in candidate.changes] for candidate in tried] == [[1], [1], [2]]


async def take_two(engine: Engine, session: str, tried: Sequence[TriedCandidate], project: Path) -> None:
    """All of the first, and of the third what the first has not."""
    before, after = (project / PLACE).read_text(), engine.state(session).seq
    assert not engine.state(session).changes, "nothing is taken by itself"
    [change] = tried[2].changes
    moment = change.change.hunks[1].id
    picks = (cmd.CandidatePick(id=tried[0].id), cmd.CandidatePick(id=tried[2].id, path=PLACE, hunks=(moment,)))
    assert isinstance(await engine.submit(cmd.BestTake(session=session, picks=picks)), cmd.Ack)
    ran = (await read_until(engine, session, ev.CommandRan, after=after))[-1]
    assert (ran.command, ran.exit_code) == (TEST, 0), "the tests run over the result"
    await engine.wait_idle(session)
    assert (project / PLACE).read_text() == before
    await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
    assert (project / PLACE).read_text() == before.replace(COST, CENTS).replace(NOW, MOMENT)


async def test_the_answer_without_a_screen_lists_the_candidates_and_one_is_taken(tmp_path, monkeypatch):
    project = commit_own_sources(tmp_path / "project", {"test_quantities.py": CASE})
    server_of = provider_server(strict=True, models=wires.NAMES, plays=PLAYS, find_play=lambda body: body["model"])
    async with server_of as server:
        wires.configure(monkeypatch, server, '[commands]\npolicy = "auto"\n')
        words = ("-p", "Costs in cents", "--best", ",".join(MODELS), "--trust", "--output-format", "json")
        ended = await run(project, *words, env=environment(server))
        unknown = await run(project, "review", "--take", "4", env=environment(server))
        taken = await run(project, "review", "--take", "3", env=environment(server))
        again = await run(project, "review", "--take", "3", env=environment(server))
        review = await run(project, "review", "--print", env=environment(server))
    assert (ended.code, ended.err) == (0, "")
    response = json.loads(ended.out)
    tried = response["metadata"]["candidates"]
    assert [(candidate["number"], candidate["model"], candidate["stopReason"]) for candidate in tried] == [
        (number, model, "done") for number, model in enumerate(MODELS, 1)
    ]
    assert [(candidate["files"], candidate["added"], candidate["removed"]) for candidate in tried] == [
        ([PLACE], 1, 1),
        ([PLACE], 1, 1),
        ([PLACE], 2, 2),
    ]
    assert [candidate["check"]["exitCode"] == 0 for candidate in tried] == [True, False, True]
    assert {candidate["check"]["command"] for candidate in tried} == {TEST}
    assert tried[1]["text"] == "In euros."
    assert response["metadata"]["pendingChanges"] == [], "nothing is taken by itself"
    assert (unknown.code, "Available: 1, 2, 3." in unknown.err) == (1, True), unknown.err
    assert (taken.code, taken.err.splitlines()) == (0, [f"taken     {PLACE}", f"passed    {TEST}"])
    assert (again.code, "Available: 1, 2." in again.err) == (1, True), again.err
    assert f"+{MOMENT}" in review.out
    assert MOMENT not in (project / PLACE).read_text()
