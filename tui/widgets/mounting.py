"""Widgets that are mounted when they are first needed, while others may ask for them too."""

from __future__ import annotations

from textual.widget import AwaitMount, Widget


async def wait_until_mounted(widget: Widget) -> None:
    """Wait until a widget has its children: whatever it is told before that fails.

    A query finds a widget as soon as its mounting has begun, and whoever awaited that may have been cancelled.
    """
    if not widget.is_mounted and isinstance(widget.parent, Widget):
        await AwaitMount(widget.parent, [widget])
