"""Loads the lines of the files in sight, what has the cursor first, and as much context as there is room for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from core.protocol.review import ChangeDiff
from tui.keymap import get_keymap, insert_keys
from tui.review.diff.page import DiffPage
from tui.review.diff.view import DiffView
from tui.text import render_prose
from tui.workers import start_worker

LoadLines = Callable[[str, int], Awaitable[ChangeDiff | None]]
MAX_CONTEXT: Final = 200  # lines around a hunk, where few changes leave much room


class PageLoader:
    """Loads for one view, one file after the other. `load(path, context)` returns a change with its lines, None when
    nothing is pending there any more: then `missing_text` is said. `on_loaded` hears of each that came."""

    def __init__(self, load: LoadLines, *, missing_text: str, on_loaded: Callable[[DiffPage], None]) -> None:
        self.load = load
        self._gone, self._note_loaded = missing_text, on_loaded
        self._is_running = False
        self._filled_rows = -1  # the height of all files when more context was asked for

    def start(self, view: DiffView) -> None:
        if not self._is_running and self._find_wanted(view) is not None:
            self._is_running = True
            _ = start_worker(view, self._run, view, group="review.load", exit_on_error=False)

    async def _run(self, view: DiffView) -> None:
        try:
            while (page := self._find_wanted(view)) is not None:
                await self._load_page(view, page)
        finally:
            self._is_running = False

    async def _load_page(self, view: DiffView, page: DiffPage) -> None:
        requested_change = page.change
        try:
            diff = await self.load(page.path, page.context)
        except Exception as error:  # whatever failed is shown in the place of what was to be seen
            page.problem = f"The change can't be shown\n\n{render_prose(str(error))}"
            view.lay_out_again([page])
            return
        if page.change != requested_change and (diff is None or diff.change != page.change):
            return  # it changed while it was being loaded
        if diff is not None:
            view.set_lines(page, diff)
        else:
            page.problem = insert_keys(self._gone, get_keymap(view.app))
            view.lay_out_again([page])
        self._note_loaded(page)

    def _find_wanted(self, view: DiffView) -> DiffPage | None:
        if not view.is_attached or not view.pages:
            return None
        seen_pages = view.list_seen_pages()
        candidates = seen_pages if view.page is None else [view.page, *seen_pages]
        next_page = next((page for page in candidates if page.is_wanted), None)
        if next_page is None and self._fill_view(view):
            return next((page for page in view.pages if page.is_wanted), None)
        return next_page

    def _fill_view(self, view: DiffView) -> bool:
        """Ask for more context where all files together leave room, as long as that makes them longer. True if so."""
        rows = view.count_rows()
        pages = [page for page in view.pages if page.diff is not None and not page.problem]
        extra_context = (view.size.height - rows) // max(2 * sum(len(page.hunks) for page in pages), 1)
        if not pages or extra_context <= 0 or rows == self._filled_rows:
            return False
        self._filled_rows = rows
        for page in pages:
            page.context = min(page.context + extra_context, MAX_CONTEXT)
        return True
