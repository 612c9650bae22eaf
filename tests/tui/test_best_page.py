"""Candidates side by side: what the dialog shows, what its keys choose, and what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from textual.widgets import Static

from core.protocol import commands as cmd
from core.protocol.messages import Usage
from core.protocol.queries import CandidatesAnswer, CandidatesQuery, TriedCandidate
from core.protocol.review import Change, ChangeDiff, Check, DiffLine, FileState, Hunk
from tests.support import recorded
from tui.dialogs.best import BestDialog, ComparedHunks, list_hunks, list_rows, render_cards

CHECK = Check(call="c", command="pytest -q", exit_code=0)


def hunk(name: str, at: int) -> Hunk:
    return Hunk(id=name, old_start=at, old_lines=1, new_start=at, new_lines=1)


def diff(path: str, *names: str) -> ChangeDiff:
    hunks = tuple(hunk(name, 10 * number + 1) for number, name in enumerate(names))
    change = Change(
        path=path,
        operation="edit",
        base=FileState(blob="b"),
        pending=FileState(blob="p"),
        hunks=hunks,
        added=len(names),
        removed=len(names),
    )
    lines: list[DiffLine] = []
    for number, name in enumerate(names):
        at = 10 * number + 1
        lines += [
            DiffLine(kind="gap", old=0, new=0, text="9 unchanged lines"),
            DiffLine(kind="context", old=at - 1, new=at - 1, text="def gross(price):"),
            DiffLine(kind="removed", old=at, new=0, text=f"    return {name}", hunk=number),
            DiffLine(kind="added", old=0, new=at, text=f"    return round({name}, 2)", hunk=number),
        ]
    return ChangeDiff(change=change, lines=tuple(lines))


def candidate(name: str, title: str, *diffs: ChangeDiff, passed: bool | None = True, **more: Any) -> TriedCandidate:
    check = None if passed is None else Check(call="c", command="pytest -q", exit_code=0 if passed else 1)
    usage = Usage(prompt_tokens=9_000, completion_tokens=500, cost=0.0312)
    return (
        TriedCandidate(
            id=name,
            title=title,
            model=f"x/{title}",
            state="ended",
            usage=usage,
            duration_ms=41_000,
            check=check,
            changes=diffs,
        )
        if not more
        else TriedCandidate(id=name, title=title, model="x", usage=usage, check=check, changes=diffs, **more)
    )


FOUND = CandidatesAnswer(
    prompt="Round the prices to cents",
    candidates=(
        candidate("s1", "1 · gpt-6-luna", diff("calc.py", "gross"), passed=False),
        candidate("s2", "2 · claude-sonnet-5-5", diff("calc.py", "gross", "net"), diff("shop/cart.py", "total")),
        candidate("s3", "3 · qwen", state="ended", said="I could not find it.", passed=None),
    ),
)


async def open_dialog(on: Any) -> BestDialog:
    on.prompt.text = "/best"
    on.prompt.action_send()
    await on.until(lambda: isinstance(on.app.screen, BestDialog) and on.app.screen.query(ComparedHunks))
    await on.pilot.pause()
    return on.app.screen


def shown(on: Any) -> str:
    view = on.app.screen.query_one(ComparedHunks)
    return "\n".join(view.render_line(y).text.rstrip() for y in range(view.size.height))


async def test_the_first_that_passed_is_shown_and_hunks_of_two_are_taken(stage):
    async with stage(answers={CandidatesQuery: FOUND}, size=(120, 40)) as on:
        await open_dialog(on)
        cards = str(on.app.screen.query_one("#best-cards", Static).content)
        assert "✕ pytest -q" in cards
        assert "✓ pytest -q" in cards
        assert "not checked" in cards
        assert "2 files +3 −3" in cards
        assert "[ ] hunk 1/2" in shown(on)
        await on.pilot.press("j", "space", "1", "a")
        await on.until(lambda: "[x] hunk 1/1" in shown(on))
        assert "2 hunks of 2 candidates" in str(on.app.screen.query_one("#best-keys", Static).content)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(cmd.BestTake))
        [sent] = on.sent(cmd.BestTake)
        assert sent.picks == (cmd.CandidatePick(id="s1"), cmd.CandidatePick(id="s2", path="calc.py", hunks=("net",)))


async def test_without_a_choice_the_candidate_that_is_looked_at_is_taken_and_one_without_changes_is_not(stage):
    async with stage(answers={CandidatesQuery: FOUND}, size=(120, 40)) as on:
        await open_dialog(on)
        await on.pilot.press("tab")
        await on.until(lambda: "I could not find it." in shown(on))
        await on.pilot.press("enter", "space")
        assert isinstance(on.app.screen, BestDialog)
        assert not on.sent(cmd.BestTake)
        await on.pilot.press("left", "left", "right", "enter")
        await on.until(lambda: on.sent(cmd.BestTake))
        assert on.sent(cmd.BestTake)[0].picks == (cmd.CandidatePick(id="s2"),)


async def test_keys_go_through_candidates_and_hunks_and_leave(stage):
    async with stage(answers={CandidatesQuery: FOUND}, size=(120, 40)) as on:
        dialog = await open_dialog(on)
        view = dialog.query_one(ComparedHunks)
        await on.pilot.press("j", "j", "k")
        assert view.current == ("s2", "calc.py", "net")
        await on.pilot.press("down")
        assert view.current == ("s2", "shop/cart.py", "total")
        await on.pilot.press("up")
        assert view.current == ("s2", "calc.py", "net")
        await on.pilot.press("a", "a", "3", "shift+tab")
        assert view.current == ("s2", "calc.py", "gross")
        assert "[x]" not in shown(on)
        for leave in ("escape", "q"):
            await on.pilot.press(leave)
            await on.until(lambda: on.app.screen is on.screen)
            await open_dialog(on)
        assert not on.sent(cmd.BestTake)


async def test_each_candidate_is_shown_by_its_number_and_a_number_without_one_does_nothing(stage):
    four = tuple(candidate(f"s{n}", f"{n} · x", diff("calc.py", "gross")) for n in range(1, 5))
    async with stage(answers={CandidatesQuery: replace(FOUND, candidates=four)}, size=(120, 40)) as on:
        view = (await open_dialog(on)).query_one(ComparedHunks)
        for key, shown_one in {"2": "s2", "4": "s4", "1": "s1", "3": "s3", "5": "s3"}.items():
            await on.pilot.press(key)
            await on.pilot.pause()
            assert view.current == (shown_one, "calc.py", "gross")


async def test_the_command_takes_a_number_or_models(stage):
    async with stage(answers={CandidatesQuery: CandidatesAnswer()}) as on:
        for typed in ("/best 3 Round it", "/best a/one,b/two Round it", "/best"):
            on.prompt.text = typed
            on.prompt.action_send()
            await on.pilot.pause()
        await on.until(lambda: len(on.sent(cmd.BestRun)) == 2)
        assert [command.models for command in on.sent(cmd.BestRun)] == [("", "", ""), ("a/one", "b/two")]
        assert {command.text for command in on.sent(cmd.BestRun)} == {"Round it"}
        await on.until(
            lambda: any("Nothing to compare yet" in notification.message for notification in on.app._notifications)
        )


@pytest.mark.parametrize("typed", ["/best 3", "/best 0 Round it"])
async def test_what_can_not_be_tried_stays_in_the_input_and_it_is_said_how_it_is_written(stage, typed):
    async with stage() as on:
        on.prompt.text = typed
        on.prompt.action_send()
        await on.until(
            lambda: any("/best 3 PROMPT, or" in notification.message for notification in on.app._notifications)
        )
        await on.until(lambda: on.prompt.text == typed)
        assert not on.sent(cmd.BestRun)


async def test_a_prompt_of_several_lines_is_tried_and_one_that_is_refused_goes_back_into_the_input(stage):
    def refuse(_, command: cmd.AnyCommand) -> cmd.Reject | None:
        is_much = isinstance(command, cmd.BestRun) and len(command.models) > 4
        return cmd.Reject(code="best_count", message="a prompt can't be tried 9 times.") if is_much else None

    async with stage(react=refuse) as on:
        for typed in ("/best 3 Round it:\n- prices\n- taxes", "/best 9 Round it:\n- prices"):
            on.prompt.text = typed
            on.prompt.action_send()
            await on.pilot.pause()
        await on.until(lambda: on.prompt.text)
        assert on.sent(cmd.BestRun)[0].text == "Round it:\n- prices\n- taxes"
        assert not on.sent(cmd.TurnSubmit)
        assert on.prompt.text == "/best 9 Round it:\n- prices"


def test_what_can_not_be_shown_as_text_is_chosen_as_a_whole():
    whole = Change(
        path="logo.png",
        operation="edit",
        base=FileState(blob="b"),
        pending=FileState(blob="p"),
        hunks=(hunk("all", 1),),
        binary=True,
    )
    tried_candidate = candidate("s1", "1", ChangeDiff(change=whole, lines=()))
    assert [(row.text, row.hunk) for row in list_rows(tried_candidate) if row.is_head] == [
        ("the whole file", ("s1", "logo.png", "all"))
    ]
    assert list_hunks(tried_candidate) == [("s1", "logo.png", "all")]


def test_cards_become_rows_where_there_is_no_room():
    assert len(render_cards(FOUND.candidates, 0, {}, 40).plain.splitlines()) == 3
    assert len(render_cards(FOUND.candidates, 0, {}, 110).plain.splitlines()) == 5
    assert max(map(len, render_cards(FOUND.candidates, 0, {}, 110).plain.splitlines())) <= 110


def test_candidates_of_one_model_are_named_once():
    candidates = [replace(candidate, title=f"candidate {n}") for n, candidate in enumerate(FOUND.candidates, 1)]
    [heads, *_] = render_cards(candidates, 0, {}, 110).plain.splitlines()
    assert heads.split() == ["candidate", "1", "candidate", "2", "candidate", "3"]


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=str)
def test_candidates_look_as_they_did(looks, size):
    keys = ["slash", *"best", "enter", "space", "j"]
    assert looks(recorded.opening(), size, keys=keys, answers={CandidatesQuery: FOUND})
