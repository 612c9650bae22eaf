"""Screens whose widgets are laid out by what they show now.

Textual remembers the size of a widget until its content changes, but takes no note of a second change that comes before
the widget was idle: where the screen was laid out between the two, the size of the first stays (Textual 8.2.8,
`Widget.refresh`). On a busy machine that cut rows off, such as the keys of a question.
"""

from __future__ import annotations

from textual.messages import Layout
from textual.screen import Screen, ScreenResultType
from textual.widget import Widget


class CurrentLayoutScreen(Screen[ScreenResultType]):
    """A screen that forgets the remembered sizes of each widget that asks for a layout, and of what is sized by it."""

    def _on_layout(self, message: Layout) -> None:  # type: ignore[override]  # Textual calls that of each class
        for node in message.widget.ancestors_with_self:
            if not isinstance(node, Widget):
                break
            node._clear_arrangement_cache()
            node._layout_updates += 1
            if node is not message.widget and not node.styles.auto_dimensions:
                break
