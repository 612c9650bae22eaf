"""The list above the prompt that completes files after `@` and commands after `/`."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.text import fit_line


class CompletionList(OptionList, can_focus=False):
    """Shows candidates; the prompt keeps the focus and passes the keys on."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, compact=True)
        self.kind = ""
        self.display = False
        self._words: tuple[str, ...] = ()

    def show(self, kind: str, candidates: Sequence[tuple[str, str]]) -> None:
        """Show (word, explanation) candidates; none hides the list."""
        self.kind = kind
        self._words = tuple(word for word, _ in candidates)
        self.set_options(
            Option(Content.assemble(fit_line(word), "  ", (fit_line(note), "$foreground 60%")))
            for word, note in candidates
        )
        self.display = bool(candidates)
        if candidates:
            self.highlighted = 0

    @property
    def selected_word(self) -> str | None:
        """The highlighted word, None without one."""
        return self._words[self.highlighted] if self.highlighted is not None and self._words else None
