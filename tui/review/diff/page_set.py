"""The files of a review in the order in which they are shown; a file keeps its page once it is settled, too.

A file stands under the intent that it was changed for; what is settled stays where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.protocol.review import Change, Comment
from tui.review.diff.layout import FoldedHunk
from tui.review.diff.page import DiffPage
from tui.review.verdicts import SentVerdicts
from tui.widgets.diagnostics import DiagnosticReports


class PageSet:
    """The pages by path."""

    def __init__(self) -> None:
        self._pages: dict[str, DiffPage] = {}

    def __getitem__(self, path: str) -> DiffPage:
        return self._pages[path]

    def clear(self) -> None:
        self._pages = {}

    def arrange(
        self, changes: Sequence[Change], folded_hunks: Mapping[str, Sequence[FoldedHunk]], intents: Mapping[str, str]
    ) -> list[DiffPage]:
        """Return the pages of these changes in their order, and those of files in `folded_hunks` that no longer wait.

        `intents`: what each path was changed for; it stands above the first of several files with the same.
        """
        pages = []
        for number, change in enumerate(changes, 1):
            page = self._pages.get(change.path) or DiffPage(change.path, change)
            page.set_change(change)
            page.place = f"{number}/{len(changes)}"
            page.intent = intents.get(change.path, "")
            pages.append(page)
        for path in sorted(folded_hunks.keys() - {page.path for page in pages}):
            self._insert_settled(pages, path)
        label = ""
        for page in pages:
            page.folded = folded_hunks.get(page.path, ())
            page.group, label = (page.intent if page.intent != label else ""), page.intent
        self._pages = {page.path: page for page in pages}
        return pages

    def _insert_settled(self, pages: list[DiffPage], path: str) -> None:
        before = list(self._pages)
        settled_page = self._pages.get(path) or DiffPage(path, None)
        settled_page.set_change(None)
        above = before[: before.index(path)] if path in self._pages else [page.path for page in pages]
        position = max((index for index, page in enumerate(pages, 1) if page.path in above), default=0)
        pages.insert(position, settled_page)

    def annotate(
        self, comments: Mapping[tuple[str, str], Comment], diagnostics: DiagnosticReports, sent_verdicts: SentVerdicts
    ) -> tuple[list[DiffPage], bool]:
        """Pass on what is said of the files. Return those that have to be laid out anew, and whether a verdict that is
        under way was given or answered."""
        by_path: dict[str, dict[str, str]] = {}
        for (path, hunk), comment in comments.items():
            by_path.setdefault(path, {})[hunk] = comment.text
        stale, is_judged = [], False
        for page in self._pages.values():
            verdicts = dict(sent_verdicts.get_hunks(page.path))
            is_judged, page.sent = is_judged or page.sent != verdicts, verdicts
            path_comments, report = by_path.get(page.path, {}), diagnostics.get(page.path)
            if (page.comments, page.diagnostics) != (path_comments, report):
                page.comments, page.diagnostics = path_comments, report
                stale.append(page)
        return stale, is_judged
