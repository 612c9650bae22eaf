"""Ask mode on the screen: nothing is changed, so no pane belongs to it."""

from __future__ import annotations

from typing import Final

from tui.modes.base import ScreenMode

SCREEN_MODE: Final = ScreenMode(
    title="Ask",
    note="answers, changes nothing",
    placeholder="Ask about the code. Nothing is changed.",
    accent="success",
)
