"""Plan mode on the screen: the plan is shown whenever it changes."""

from __future__ import annotations

from typing import Final

from tui.modes.base import BOARD, REVIEW, AutoPane, ScreenMode

SCREEN_MODE: Final = ScreenMode(
    title="Plan",
    note="makes a plan, changes nothing",
    placeholder="What shall be planned? Nothing is changed.",
    accent="warning",
    panes=(
        REVIEW,
        AutoPane(name="plan", topics=frozenset({"plan"}), is_due=lambda state: state.current_plan is not None),
        BOARD,
    ),
)
