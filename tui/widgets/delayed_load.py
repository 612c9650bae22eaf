"""Loading what a widget shows: the latest request wins, a slow one is said so, a failure is shown as words."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from textual.timer import Timer
from textual.widget import Widget

from tui.text import clean
from tui.workers import start_worker

PROGRESS_DELAY: Final = 0.5  # seconds


@dataclass(slots=True)
class DelayedLoad:
    """Loads of one widget. `show_progress` is called when one takes long, `show_failure` with an error."""

    _widget: Widget
    _group: str
    show_progress: Callable[[], None]
    show_failure: Callable[[str], None]
    _timer: Timer | None = None

    def start(self, load: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `load` in the place of what is still being loaded."""
        if self._timer is None:
            self._timer = self._widget.set_timer(PROGRESS_DELAY, self.show_progress)
        _ = start_worker(self._widget, self._run, load, group=self._group, exclusive=True, exit_on_error=False)

    def cancel(self) -> None:
        self._widget.workers.cancel_group(self._widget, self._group)
        self.finish()

    def finish(self) -> None:
        """Take note that what was to be loaded is there."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    async def _run(self, load: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await load()
        except Exception as error:  # whatever failed is shown in the place of what was to be seen
            self.finish()
            self.show_failure(clean(str(error)))
