from __future__ import annotations

from msgspec.structs import replace

from core.protocol import documents as d
from core.protocol import events as e
from core.protocol.review import Check, FileState, Origin, VerdictRecord
from tests.support import recorded

CHANGE = replace(recorded.change("shop/tax.py", 1), origin=Origin(turn="trn_1", call="c", tool="search_replace"))
STATE = FileState(blob="c" * 64)
ACCEPTED = VerdictRecord(
    id="v",
    path=CHANGE.path,
    verdict="accept",
    hunks=CHANGE.hunks,
    base_before=STATE,
    base_after=STATE,
    pending_before=STATE,
    pending_after=STATE,
    origin=CHANGE.origin,
)


async def test_a_turn_ends_in_a_receipt_that_follows_the_verdicts_and_is_copied_as_markdown(stage, monkeypatch):
    run = d.TerminalCommandMetadata(
        command="pytest -q", exit_code=0, output="3 passed in 1s\n", tests="3 passed", tool_call_id="c"
    )
    events = [
        e.TurnStarted(prompt="Fix it", mode="agent", model="openai/m"),
        e.CheckRecorded(check=Check(call="c", command="pytest -q", exit_code=0, tests="3 passed")),
        e.DocumentFinished(document=d.TerminalCommandDocument(id="t", sequence=1, metadata=run)),
        e.ChangeProposed(change=CHANGE),
        e.TurnFinished(reason="done", steps=2, duration_ms=1500),
    ]
    async with stage([*recorded.opening(), *events]) as on:
        receipt_lines = [line.strip() for line in on.lines() if line.strip()][-3:]
        assert receipt_lines == [
            "─ done · 2 steps · 1.5 s · openai/m",
            "shop/tax.py  +4 −2 · to review",
            "✓ pytest -q · 3 passed",
        ]
        await on.emit(e.VerdictGiven(verdict=ACCEPTED), e.ChangeResolved(path=CHANGE.path))
        assert any("shop/tax.py  +2 −1 · accepted" in line for line in on.lines())
        await on.emit(e.VerdictUndone(id="v", path=CHANGE.path), e.ChangeProposed(change=CHANGE))
        assert any("shop/tax.py  +4 −2 · to review" in line for line in on.lines())
        copied: list[str] = []
        monkeypatch.setattr(on.app, "copy_to_clipboard", copied.append)
        await on.pilot.press("ctrl+up", "y")
        assert "| `shop/tax.py` | +4 −2 | to review |" in copied[0]
        assert "- ✅ `pytest -q`: 3 passed" in copied[0]


async def test_a_turn_that_only_talked_ends_in_one_line(stage):
    start = e.TurnStarted(prompt="Why?", mode="ask", model="openai/m")
    async with stage([*recorded.opening(), start, e.TurnFinished(reason="done", steps=1, duration_ms=900)]) as on:
        assert [line.strip() for line in on.lines() if line.strip()][-1] == "─ done · 1 step · 900 ms"


async def test_a_change_without_lines_has_no_count_of_them(stage):
    events = [
        e.TurnStarted(prompt="Let it run", mode="agent", model="openai/m"),
        e.ChangeProposed(change=replace(CHANGE, added=0, removed=0)),
        e.TurnFinished(reason="done", steps=1),
    ]
    async with stage([*recorded.opening(), *events]) as on:
        assert [line.strip() for line in on.lines() if line.strip()][-1] == "shop/tax.py · to review"
