"""Keys depend on visibility: a hidden widget takes none, and an item that has just appeared can't be judged.

Times are seconds of the caller's clock. A verdict counts at the time of its key press, not of its execution: a key that
waited while the program was busy refers to the earlier screen.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from time import monotonic
from typing import Final, Literal

from textual.errors import NoWidget
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

GLANCE_SECONDS: Final = 0.1
Visibility = Literal["seen", "coming", "hidden"]


def get_visibility(widget: Widget) -> Visibility:
    """Return "seen" if some of the widget is in the layout of the screen on top and not clipped away, "coming" if
    nothing hides it but it has not been laid out yet, else "hidden"."""
    is_on_top = widget.is_attached and widget.screen is widget.app.screen
    if not is_on_top or not all(node.display for node in widget.ancestors_with_self):
        return "hidden"
    try:
        geometry = widget.screen.find_widget(widget)
    except NoWidget:
        return "coming"
    return "seen" if geometry.visible_region.area else "hidden"


def is_fully_visible(widget: Widget) -> bool:
    """True if nothing of the widget is clipped away."""
    if get_visibility(widget) != "seen":
        return False
    geometry = widget.screen.find_widget(widget)
    return geometry.visible_region == Region(*geometry.region)


def get_seconds_since_struck(widget: Widget) -> float:
    """Return the seconds since the press of the current key or button; 0 if unknown."""
    get_seconds = getattr(widget.app, "seconds_since_struck", None)
    return float(get_seconds()) if callable(get_seconds) else 0.0


def is_button_down(widget: Widget) -> bool:
    """True while a button of the mouse is pressed."""
    return bool(getattr(getattr(widget.app, "key_filter", None), "is_button_down", False))


class GracePeriod:
    """The period after an appearance in which no answer is accepted. It starts with the first frame, or with
    `restart`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._drawn_at: float | None = None

    def restart(self) -> None:
        """Restart, because the content changed or was hidden."""
        self._drawn_at = None

    def note_drawn(self) -> None:
        if self._drawn_at is None:
            self._drawn_at = monotonic()

    def is_over(self, since_struck: float = 0.0) -> bool:
        """True if a key that was pressed so many seconds ago refers to the current content."""
        return self._drawn_at is not None and monotonic() - since_struck - self._drawn_at >= self._seconds


class GuardedWidget(Widget):
    """A widget with a question: it accepts an answer after its current content was visible for a moment."""

    grace_period: GracePeriod

    def render_lines(self, crop: Region) -> list[Strip]:
        if get_visibility(self) == "seen":
            self.grace_period.note_drawn()
        return super().render_lines(crop)

    def restart_grace(self) -> None:
        """Begin the grace period again: something else is asked, or the widget was hidden."""
        self.grace_period.restart()
        self.refresh()

    def on_hide(self) -> None:
        self.restart_grace()

    def can_take_answer(self) -> bool:
        """True if the widget was visible long enough when the current key was pressed."""
        return get_visibility(self) == "seen" and self.grace_period.is_over(get_seconds_since_struck(self))


class PaneAttention:
    """The time that the user has had to look: `grace` seconds since a pane appeared, and since it got the focus.

    `seconds_needed`: the time that an item must have been visible before it can be judged.
    """

    def __init__(self, grace: float, clock: Callable[[], float]) -> None:
        self._grace, self._clock = grace, clock
        self._up_since = self._focused_since = float("-inf")
        self.seconds_needed = grace
        self._has_focus = False

    def note_shown(self) -> None:
        """Note that the pane has just appeared or was uncovered."""
        self._up_since, self.seconds_needed = self._clock(), self._grace

    def note_focus(self, has_focus: bool) -> None:
        if has_focus and not self._has_focus:
            self._focused_since = self._clock()
        self._has_focus = has_focus

    def note_moved(self, *, by_hand: bool) -> None:
        """Note that another item of the pane is current; after a move `by_hand`, a glance is enough."""
        self.seconds_needed = GLANCE_SECONDS if by_hand else self._grace

    def is_too_early(self, since_struck: float, *, by_mouse: bool = False) -> bool:
        """True if a key pressed so many seconds ago referred to the previous content. The mouse needs no focus."""
        start_time = self._up_since if by_mouse else max(self._up_since, self._focused_since)
        return self._clock() - since_struck - start_time < self._grace


class VisibleTimes:
    """The times since which items have been visible without interruption."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[Hashable, float] = {}
        self._longest: dict[Hashable, float] = {}  # of targets that are not visible now

    def note_visible(self, targets: Iterable[Hashable]) -> None:
        now, before = self._clock(), self._since
        self._since = {target: before.get(target, now) for target in targets}
        for target in before.keys() - self._since.keys():
            self._longest[target] = max(now - before[target], self._longest.get(target, 0.0))

    def clear(self) -> None:
        self.note_visible(())

    def was_visible_for(self, target: Hashable, *, at_least: float, since_struck: float = 0.0) -> bool:
        """True if the item has ever been visible for `at_least` seconds before the key was pressed."""
        is_visible = self.is_visible_for(target, at_least=at_least, since_struck=since_struck)
        return is_visible or self._longest.get(target, 0.0) >= at_least

    def is_visible_for(self, target: Hashable, *, at_least: float, since_struck: float = 0.0) -> bool:
        """True if the item had been visible for `at_least` seconds when the key was pressed."""
        start_time = self._since.get(target)
        return start_time is not None and self._clock() - since_struck - start_time >= at_least
