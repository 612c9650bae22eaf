"""What a subagent did, in the review: named by its task, judged as one, and in a clash."""

from __future__ import annotations

from msgspec.structs import replace

from core.protocol import queries as q
from core.protocol.review import Origin
from tests.tui.test_review_dialogs import SIDES, conflict, diff, proposed, reviewing
from tests.tui.test_review_list import change
from tui.dialogs.conflict import ConflictView
from tui.review.descriptions import describe_change


async def test_what_a_subagent_did_is_named_by_its_task_and_judged_as_one(stage, clock):
    origin = Origin(turn="t1", call="sub_1", tool="subagent", subagent="Rename the changelog")
    async with stage(proposed(change("a", origin=origin)), answers={q.DiffQuery: diff("a")}) as on:
        await reviewing(on, clock)
        description = "".join(text for text, _ in describe_change(change("a", origin=origin), {}, {}, 80))
        assert description == " no check since · by subagent “Rename the changelog”"
        offered = on.screen.controllers.review.build_origin_options(change("a", origin=origin))
        assert offered[0].label == "accept all of subagent “Rename the changelog”"


async def test_what_nobody_is_known_for_is_called_pending(stage, clock):
    sides = replace(SIDES, theirs_is="“Rename the changelog”")
    answers = {q.DiffQuery: diff("src/a.py"), q.ConflictQuery: q.ConflictAnswer(sides=sides)}
    async with stage(proposed(change("src/a.py", conflict="edited")), answers=answers) as on:
        view = (await conflict(on, clock)).query_one(ConflictView)
        text = view.render_line(1).text
        assert "pending " in text
        assert "for “Rename the changelog”" in text
        assert "pending, for" not in text
