"""Screens whose widgets are laid out by their current content.

Textual caches the size of a widget until its content changes, but misses a second change before the widget was idle:
after a layout between the two changes, the size of the first one stays (Textual 8.2.8, `Widget.refresh`). On a busy
machine that cut rows off, such as the keys of a question.
"""

from __future__ import annotations

from textual.messages import Layout
from textual.screen import Screen, ScreenResultType
from textual.widget import Widget


class CurrentLayoutScreen(Screen[ScreenResultType]):
    """A screen that clears the cached sizes of every widget that requests a layout, and of its ancestors."""

    def _on_layout(self, message: Layout) -> None:  # type: ignore[override]  # Textual calls the method of every class
        for node in message.widget.ancestors_with_self:
            if not isinstance(node, Widget):
                break
            node._clear_arrangement_cache()
            node._layout_updates += 1
            if node is not message.widget and not node.styles.auto_dimensions:
                break
