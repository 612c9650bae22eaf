"""The bar that asks whether a project is trusted. It takes no key from the prompt and waits as long as it has to."""

from __future__ import annotations

from typing import Final

from textual.content import Content
from textual.widgets import Static

from core.protocol.events import TrustStated
from tui.keymap import key_of
from tui.sight import Guard, Guarded, is_whole
from tui.text import exposed, named

GRACE: Final = 0.4
_DIM: Final = "$foreground 60%"
_MEANS: Final = (
    "\nIf you do, the agent is told the project's rules, its settings may make yours stricter, and git is asked about "
    "it. If not, the agent works without these. What it changes waits for your review either way."
)


_MEANS_CHANGED: Final = (
    "\nUntil you say yes, these files are not read. All else of the project is heard as before. What you accept in the "
    "review is never asked about."
)
_SHOWN: Final = 4


def _new(stated: TrustStated) -> tuple[str, str, str, str]:
    """The question, what there is, what an answer means, and the words for yes."""
    held = f" It has {', '.join(map(exposed, stated.holds))}." if stated.holds else ""
    return f"Do you trust the project in {named(stated.directory, 160)}?", held, _MEANS, "trust it"


def _changed(stated: TrustStated) -> tuple[str, str, str, str]:
    names = [named(path, 80) for path in stated.changed[:_SHOWN]]
    more = len(stated.changed) - _SHOWN
    told = f" {', '.join(names)}{f' and {more} more' if more > 0 else ''}."
    return "What speaks to the agent here has changed since you trusted it:", told, _MEANS_CHANGED, "read it"


class TrustBar(Guarded, Static):
    """Shows the question; the keys belong to the screen."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.guard = Guard(GRACE)
        self._stated: TrustStated | None = None
        self.display = False

    def ask(self, stated: TrustStated | None) -> None:
        """Ask, or (None) be gone."""
        if stated is not None and not self.display:
            self.unseen()
        self._stated, self.display = stated, stated is not None
        self._fill()

    def on_resize(self) -> None:
        self._fill()

    def _fill(self) -> None:
        if (stated := self._stated) is None:
            return
        keymap = getattr(self.app, "keymap", {})
        asked, more, means, yes = _changed(stated) if stated.changed else _new(stated)
        parts = [
            (asked, "bold $warning"),
            (f"{more}{'' if self.screen.has_class('-low') else means}\n", _DIM),
            (key_of("app.trust", keymap), "$accent bold"),
            (f" {yes}   ", ""),
            (key_of("app.distrust", keymap), "$accent bold"),
            (" not now   ", ""),
            ("or just go on", _DIM),
        ]
        self.update(Content.assemble(*parts))

    @property
    def takes_answers(self) -> bool:
        """Whether it has been on screen long enough to have been read."""
        return is_whole(self) and self.is_read()
