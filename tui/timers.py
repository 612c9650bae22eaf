"""Timers that run once, whatever the processor does meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from textual.message_pump import MessagePump
from textual.timer import Timer


def start_timer(node: MessagePump, seconds: float, callback: Callable[[], object]) -> Timer:
    """Call a function of a node once, after some seconds.

    Textual's own `set_timer` never calls it if the process is kept from the processor for that long just as the timer
    starts: a timer skips the moments it has missed, and a single one has no other (`Timer._run` in Textual 8.2). A
    timer of some milliseconds was lost once in some ten thousand times on a busy machine, and a sent prompt with it.
    """
    timer = node.set_timer(seconds, callback)
    timer._skip = False  # it begins to run when this function has returned
    return timer
