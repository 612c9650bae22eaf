"""The screen's state: the session's, and what is about showing it; a pure fold of the events, without a widget."""

from __future__ import annotations

from tui.state.fold import show_event
from tui.state.transcript import Topic
from tui.state.view import ViewState

__all__ = ["Topic", "ViewState", "show_event"]
