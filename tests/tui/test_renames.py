"""A renamed and edited file in the review: one row, the rename first, then the changed hunks, each with its verdict."""

from __future__ import annotations

from msgspec.structs import replace

from core.protocol.review import ChangeDiff, FileState, Hunk
from tests.tui.review_case import ReviewApp, diff_of
from tests.tui.test_review import resolved, settle, text_of
from tui.review.change_list import ChangeList

MOVES = Hunk(id="moves", old_start=1, old_lines=0, new_start=1, new_lines=0, moves=True)


def renamed() -> ChangeDiff:
    edits = diff_of("src/new.py", [("-+", "one=>ONE"), (" ", "two"), ("-+", "three=>THREE")])
    old = FileState(blob="b", size=100)
    change = replace(
        edits.change,
        operation="rename",
        base=FileState(kind="absent", mode=0),
        hunks=(MOVES, *edits.change.hunks),
        renamed_from="src/old.py",
        source=old,
    )
    lines = tuple(replace(line, hunk=line.hunk + 1 if line.hunk >= 0 else -1) for line in edits.lines)
    return ChangeDiff(change=change, lines=lines)


async def test_n16a_an_edited_rename_is_one_row_with_the_rename_first_and_its_changed_lines():
    diff = renamed()
    app = ReviewApp([diff])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        assert "src/old.py → src/new.py" in text_of(view)
        view_text = text_of(view)
        order = [
            view_text.index(phrase)
            for phrase in ("rename 1/3", "renamed from src/old.py", "hunk 2/3", "ONE", "hunk 3/3")
        ]
        assert order == sorted(order)
        assert view.current == 0
        ids = [hunk.id for hunk in diff.change.hunks]
        await settle(pilot, "j", "a", "r")
        assert resolved(app) == [("src/new.py", (ids[1],), "accept", ""), ("src/new.py", (ids[2],), "reject", "")]


async def test_n16a_in_the_list_an_edited_rename_is_accepted_with_all_its_hunks_by_one_key():
    diff = renamed()
    app = ReviewApp([diff])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "l")
        row = app.query_one(ChangeList).render_line(0).text
        assert "src/old.py → src/new.py" in row
        assert ("+2" in row, "−2" in row) == (True, True)
        await settle(pilot, "a")
        assert resolved(app) == [("src/new.py", tuple(hunk.id for hunk in diff.change.hunks), "accept", "")]
