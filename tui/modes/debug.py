"""Debug mode on the screen: while hypotheses are tested the review does not cover the debug board."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tui.modes.base import BOARD, REVIEW, ScreenMode

if TYPE_CHECKING:
    from tui.state import ViewState


def _is_testing(state: ViewState) -> bool:
    return state.is_running and bool(state.debug.hypotheses)


SCREEN_MODE: Final = ScreenMode(
    title="Debug",
    note="finds the cause by evidence",
    placeholder="What goes wrong, and how do you see it?",
    accent="error",
    panes=(replace(REVIEW, is_held_back=_is_testing), BOARD),
)
