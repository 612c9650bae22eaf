"""Agent mode on the screen: the review is shown when the first change waits; while a plan is built, the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tui.modes.base import BOARD, BUILD, REVIEW, ScreenMode, is_building

SCREEN_MODE: Final = ScreenMode(
    title="Agent",
    note="edits wait for your review",
    placeholder="What shall be done?   @ file   / command   shift+tab mode",
    accent="primary",
    panes=(replace(REVIEW, is_held_back=is_building), BUILD, BOARD),
)
