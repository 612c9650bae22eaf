"""Agent mode on the screen: the review is shown when the first change waits."""

from __future__ import annotations

from typing import Final

from tui.modes.base import ScreenMode

SCREEN_MODE: Final = ScreenMode(
    title="Agent",
    note="edits wait for your review, commands run in the box",
    placeholder="What shall be done?   @ file   / command   shift+tab mode",
    accent="primary",
)
