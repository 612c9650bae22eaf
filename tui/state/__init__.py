"""The screen's state: the session's state and display state, a pure fold of the events without widgets."""

from __future__ import annotations

from tui.state.fold import show_event
from tui.state.transcript import Topic
from tui.state.view import ViewState

__all__ = ["Topic", "ViewState", "show_event"]
