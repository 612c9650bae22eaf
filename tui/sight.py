"""What the user sees decides what keys can do: what is hidden takes none, and what has only just come up is not judged.

Moments are seconds of the clock at hand. A verdict counts from the moment its key was struck, not from the one in which
it is carried out: a key that waited while the program was busy was meant for what was on screen then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from time import monotonic
from typing import Final, Literal

from textual.errors import NoWidget
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

GLANCE: Final = 0.1  # seconds
Sight = Literal["seen", "coming", "hidden"]


def sight(widget: Widget) -> Sight:
    """ "seen": some of it is in the layout of the screen on top and not clipped away. "coming": nothing hides it, but
    it has not been laid out yet. "hidden": everything else."""
    if not widget.is_attached or widget.screen is not widget.app.screen:
        return "hidden"
    if not all(node.display for node in widget.ancestors_with_self):
        return "hidden"
    try:
        found = widget.screen.find_widget(widget)
    except NoWidget:
        return "coming"
    return "seen" if found.visible_region.area else "hidden"


def is_whole(widget: Widget) -> bool:
    """Whether all of it is on screen: nothing of it is clipped away."""
    if sight(widget) != "seen":
        return False
    found = widget.screen.find_widget(widget)
    return found.visible_region == Region(*found.region)


def since_struck(widget: Widget) -> float:
    """Seconds since the key or the button that is being answered was struck; 0 where nothing tells."""
    told = getattr(widget.app, "since_struck", None)
    return float(told()) if callable(told) else 0.0


class Guard:
    """A moment in which what has just come up takes no answer. It begins when that is drawn, and anew with `renew`."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._since: float | None = None

    def renew(self) -> None:
        """Something else is shown now, or it is hidden."""
        self._since = None

    def drawn(self) -> None:
        """It was put on the screen."""
        if self._since is None:
            self._since = monotonic()

    def lets(self, since_struck: float = 0.0) -> bool:
        """Whether what was struck so many seconds ago was meant for it."""
        return self._since is not None and monotonic() - since_struck - self._since >= self._grace


class Guarded(Widget):
    """A widget that asks: it takes an answer once it, as it is now, has been on screen for a moment."""

    guard: Guard

    def render_lines(self, crop: Region) -> list[Strip]:
        if sight(self) == "seen":
            self.guard.drawn()
        return super().render_lines(crop)

    def unseen(self) -> None:
        """Something else is asked, or it was hidden: what was struck before it is seen again is not meant for it."""
        self.guard.renew()
        self.refresh()

    def on_hide(self) -> None:
        self.unseen()

    def is_read(self) -> bool:
        """Whether it can have been seen when the key was struck that is being answered."""
        return sight(self) == "seen" and self.guard.lets(since_struck(self))


class Attention:
    """Whether the user has had the time to look: `grace` seconds since a pane came up, and since the focus came to it.

    `takes`: seconds for which a thing in it has to have been seen before it is judged.
    """

    def __init__(self, grace: float, clock: Callable[[], float]) -> None:
        self._grace, self._clock = grace, clock
        self._up_since = self._focused_since = float("-inf")
        self.takes = grace
        self._is_here = False

    def comes_up(self) -> None:
        """The pane has just appeared, or what covered it is gone."""
        self._up_since, self.takes = self._clock(), self._grace

    def comes_here(self, is_here: bool) -> None:
        """Whether the focus is in the pane now."""
        if is_here and not self._is_here:
            self._focused_since = self._clock()
        self._is_here = is_here

    def goes_on(self, *, by_hand: bool) -> None:
        """To something else in the pane; where the user went `by_hand`, a glance is enough."""
        self.takes = GLANCE if by_hand else self._grace

    def is_asleep(self, since_struck: float, *, by_mouse: bool = False) -> bool:
        """Whether what was struck so many seconds ago was meant for something else. The mouse needs no focus."""
        since = self._up_since if by_mouse else max(self._up_since, self._focused_since)
        return self._clock() - since_struck - since < self._grace


class Sights:
    """Since when each of several things has been on screen without a break."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[Hashable, float] = {}

    def saw(self, things: Iterable[Hashable]) -> None:
        """These, and no others, are on screen now."""
        now = self._clock()
        self._since = {each: self._since.get(each, now) for each in things}

    def lost(self) -> None:
        """Nothing of it is on screen any more."""
        self._since.clear()

    def has(self, thing: Hashable, *, at_least: float, since_struck: float = 0.0) -> bool:
        """Whether it had been there for `at_least` seconds when the key was struck."""
        since = self._since.get(thing)
        return since is not None and self._clock() - since_struck - since >= at_least
