from __future__ import annotations

import copy
import random

import pytest
from textual._compositor import Compositor
from textual.geometry import Region
from textual.strip import Strip

from tests.support import recorded
from tui.chat.transcript import Transcript
from tui.terminal.frames import RowCompositor


def render_rows(compositor: Compositor, crop: Region, rows: set[int]) -> list[Strip]:
    chops = compositor._render_chops(crop, rows.__contains__)
    return [Strip.join(chops[y].values()).crop(*crop.column_span) for y in sorted(rows)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 16), (120, 40), (200, 60)])
async def test_a_frame_is_the_same_as_textual_draws(stage, size):
    async with stage([*recorded.opening(), *recorded.turn()], size=size) as on:
        await on.all_shown()
        await on.pilot.press("ctrl+r")
        await on.pilot.pause()
        ours = on.screen._compositor
        theirs = copy.copy(ours)
        theirs.__class__ = Compositor
        assert isinstance(ours, RowCompositor)
        chance = random.Random(5)
        width, height = size
        for _ in range(60):
            x, y = chance.randrange(width), chance.randrange(height)
            crop = Region(x, y, chance.randint(1, width - x), chance.randint(1, height - y))
            rows = {chance.randrange(crop.y, crop.bottom) for _ in range(3)}
            assert render_rows(ours, crop, rows) == render_rows(theirs, crop, rows)


async def test_a_letter_in_the_prompt_has_no_row_of_the_conversation_drawn(stage, monkeypatch):
    drawn = []
    real = Transcript.render_lines
    async with stage([*recorded.opening(), *recorded.turn()]) as on:
        await on.all_shown()
        await on.pilot.press("a")
        await on.pilot.pause()
        monkeypatch.setattr(Transcript, "render_lines", lambda self, crop: drawn.append(crop) or real(self, crop))
        await on.pilot.press("b")
        await on.until(lambda: "ab" in on.prompt.render_line(0).text)
        assert drawn == []
