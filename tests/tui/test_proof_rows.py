"""The line at each hunk that says what the check shows of it, and what stands over the whole review."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.evidence import CheckEvidence
from core.state.proof import ORDER, Judgement, ProofState
from tests.tui.proof_case import (
    CHECK,
    GAP,
    NEVER_RAN,
    PROVEN,
    UNNOTICED,
    WEAKENED,
    build_proof,
    evidence_of,
    show_proof,
)
from tests.tui.review_case import CASES, PRICES, TESTS, ReviewApp, diff_of
from tests.tui.test_review import settle, text_of
from tests.tui.test_review_looks import LookApp
from tui.review import messages
from tui.review.proof_view import ReviewProof, describe_judgement, get_look
from tui.widgets.text_rows import measure_pieces

FAULT = replace(CHECK, problem="a fault in what it claims to run was not noticed", canary="missed")


async def read(pilot: Pilot[None], app: ReviewApp, proof: ProofState) -> str:
    await settle(pilot)
    show_proof(app, proof)
    return text_of(await settle(pilot))


async def test_a_line_at_each_hunk_says_what_the_check_shows_of_it():
    app = ReviewApp()
    async with app.run_test(size=(120, 90)) as pilot:
        assert "never ran" not in text_of(await settle(pilot))
        rows = (await read(pilot, app, build_proof())).split("\n")
        heads = [index for index, row in enumerate(rows) if " hunk " in row]
        assert [rows[head + 1].strip(" ▌") for head in heads[2:]] == [
            "! runs, nothing notices  without it, all tests pass (37 tests run it)",
            "! never ran  no test reaches lines 143-145",
            "✓ checked  test_places, test_unit",
            "! used, not checked  without it: NameError: name 'old' is not defined",
            "· test",
        ]
        assert "· imports only" in rows[heads[0]]
        assert "· annotations only" in rows[heads[1]]


async def test_the_line_of_the_current_hunk_says_what_rejecting_it_would_do():
    app = ReviewApp()
    async with app.run_test(size=(120, 90)) as pilot:
        text = await read(pilot, app, build_proof(GAP))
        assert "! checked, one gap  >= → > unnoticed · test_total" in text
        text = text_of(await settle(pilot, "j", "j"))
        assert "! checked, one gap  without it, test_total fails · >= → > unnoticed" in text


async def test_evidence_of_an_earlier_text_says_so_and_is_dimmed():
    app = ReviewApp()
    async with app.run_test(size=(120, 90)) as pilot:
        proof = build_proof()
        proof.apply_edit("src/shop/other.py", replace(PRICES.change.pending, blob="z"))
        text = await read(pilot, app, proof)
        assert "✓ checked before the last edit  test_places, test_unit" in text
        assert "412 tests" not in str(app.query_one(".review--progress").render())


async def test_late_evidence_moves_no_line_that_is_read():
    app = ReviewApp()
    async with app.run_test(size=(120, 30)) as pilot:
        before = await read(pilot, app, build_proof())
        after = await read(pilot, app, build_proof(GAP))
        assert [row for row in before.split("\n") if "!" not in row] == [
            row for row in after.split("\n") if "!" not in row
        ]
        assert before != after


async def test_what_a_check_does_not_prove_stands_over_the_whole_review():
    app = ReviewApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await read(pilot, app, build_proof(check=replace(FAULT, weakened=(WEAKENED,))))
        over = app.query_one(".review--proof")
        assert over.display
        text = str(over.render())
        assert "✗ The check proves nothing: a fault in what it claims to run was not noticed" in text
        assert "! A test checks less: tests/test_prices.py:2 (1 assertion fewer)" in text
        show_proof(app, build_proof(check=replace(CHECK, problem="x", failing=("a::test_a", "b::test_b"))))
        assert "✗ The check fails: test_a, test_b" in str(over.render())
        show_proof(app, build_proof())
        assert not over.display


async def test_a_session_without_a_check_says_that_nothing_was_run():
    app = ReviewApp()
    async with app.run_test(size=(100, 30)) as pilot:
        text = await read(pilot, app, build_proof(check=CheckEvidence(command="", problem="No tests have run.")))
        assert "Nothing was run: No tests have run." in str(app.query_one(".review--proof").render())
        assert "· imports only" in text


@pytest.mark.parametrize("word", ORDER)
def test_green_is_for_what_a_test_checks_alone(word):
    sign, style = get_look(Judgement(word, word))
    assert (style == "$text-success") == (sign == "✓") == (word == "checked")
    assert get_look(Judgement(word, word, is_stale=True))[1] == "$foreground 45%"


@pytest.mark.parametrize("room", [*range(20, 90, 7)])
def test_a_description_fits_its_room(room):
    wide = Judgement("gap", "checked, one gap", "テスト" * 30 + "\x1b[2J", loss="x" * 200)
    for is_current in (False, True):
        pieces = describe_judgement(wide, room, is_current=is_current)
        assert measure_pieces(pieces) <= max(room, len("! checked, one gap"))
        assert "\x1b" not in "".join(text for text, _ in pieces)


def test_a_thousand_hunks_are_judged_once_for_each_state(monkeypatch):
    diffs = [diff_of(f"src/{number}.py", [("-+", "a=>b")]) for number in range(1000)]
    changes = [diff.change for diff in diffs]
    judged: list[str] = []
    judge = ProofState.judge
    monkeypatch.setattr(
        ProofState, "judge", lambda proof, change, hunk: judged.append(hunk.id) or judge(proof, change, hunk)
    )
    proof, shown = build_proof(*(evidence_of(diff, 0, executed="none") for diff in diffs)), ReviewProof()
    for version in (1, 1, 1, 2):
        shown.update(proof, changes, version=version)
    assert len(judged) == 2000
    assert shown.summary.look_at == 1000


async def test_t_asks_for_a_test_only_where_nothing_notices_and_resolves_a_conflict_as_before():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await read(pilot, app, build_proof())
        await settle(pilot, "t")
        assert any("asks for no test: imports only" in one.message for one in app._notifications)
        await settle(pilot, "j", "j", "t")
        assert [one for one in app.posted if isinstance(one, c.HunkTestRequest)] == [
            c.HunkTestRequest(path=UNNOTICED.path, hunk=UNNOTICED.hunk)
        ]
        app.diffs[PRICES.change.path] = replace(PRICES, change=replace(PRICES.change, conflict="It clashes."))
        show_proof(app, build_proof())
        await settle(pilot, "t")
        assert [type(one) for one in app.posted][-1] is messages.ConflictRequested


async def test_t_says_where_nothing_has_looked_into_the_hunk():
    app = ReviewApp([TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        await read(pilot, app, build_proof(evidence_of(TESTS, 0, unknown="out of time")))
        await settle(pilot, "t")
        assert [one.message for one in app._notifications] == [
            "The check has not looked into this hunk. x runs it over each hunk."
        ]


async def test_n_dismisses_a_small_change_that_went_unnoticed_and_nothing_else():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await read(pilot, app, build_proof(GAP))
        await settle(pilot, "n")
        assert [one.message for one in app._notifications] == [
            "Nothing to dismiss: no small change of this hunk went unnoticed."
        ]
        await settle(pilot, "j", "j", "n")
        dismissed = [one for one in app.posted if isinstance(one, c.MutantDismiss)]
        assert dismissed == [c.MutantDismiss(path=GAP.path, hunk=GAP.hunk)]


async def test_the_keys_about_evidence_are_shown_only_where_they_do_something():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        own = {"review.settle", "review.dismiss"}
        assert not own & {name for name, _ in app.pane.hints}
        places = [[name for name, _ in app.pane.hints].index("review.accept_proven")]
        await read(pilot, app, build_proof(GAP))
        assert not own & {name for name, _ in app.pane.hints}
        places.append([name for name, _ in app.pane.hints].index("review.accept_proven"))
        assert places[0] >= 9  # accepting what is proven comes among the first once something is
        assert places[1] == 3
        await settle(pilot, "j", "j")
        assert own <= {name for name, _ in app.pane.hints}
        await settle(pilot, "j")
        assert NEVER_RAN.hunk == app.pane.browser.current_place[1]
        assert own & {name for name, _ in app.pane.hints} == own - {"review.dismiss"}


async def proven_diff(pilot: Pilot[None]) -> None:
    await settle(pilot)
    show_proof(pilot.app, build_proof(GAP, check=replace(CHECK, weakened=(WEAKENED,))))
    await settle(pilot, "j", "j")


async def proven_list(pilot: Pilot[None]) -> None:
    await settle(pilot)
    proving = e.ProofProgressed(command="pytest -q", finished=3, total=5)
    show_proof(pilot.app, build_proof(), proving)
    await settle(pilot, "l", "G", "enter")


async def nothing_proven(pilot: Pilot[None]) -> None:
    await settle(pilot)
    proof = build_proof(check=FAULT)
    show_proof(pilot.app, proof)
    await settle(pilot, "j")


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("before", [proven_diff, proven_list, nothing_proven], ids=lambda each: each.__name__)
def test_evidence_in_the_review_looks_as_it_did(snap_compare, size, before):
    assert len(PROVEN) == sum(len(diff.change.hunks) for diff in CASES)
    assert snap_compare(LookApp(CASES), terminal_size=size, run_before=before)
