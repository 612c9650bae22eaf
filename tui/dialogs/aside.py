"""The dialog of side questions (`/btw`): one answer at a time, while it is written and with its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from core.state.asides import AsideState, describe_cost
from tui.dialogs.dialog import Dialog
from tui.dialogs.pages import PageText
from tui.keymap import get_bindings
from tui.text import fit_line, render_prose, shorten_lines
from tui.widgets.key_hints import Hint, KeyHints

LONGEST_QUESTION = 300  # characters
WAITING = "Asking …"


class AsideDialog(Dialog[None]):
    """Shows the side questions of a session, one at a time. `stop` is called with the id of one that is left before it
    is answered."""

    BINDINGS = get_bindings("aside")
    shape = "page aside"

    def __init__(
        self,
        asides: Mapping[str, AsideState],
        identity: str,
        copy: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._asides, self._shown, self._copy, self._stop = asides, identity, copy, stop

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(classes="aside--text"):
            yield PageText(self._draw)
        with Vertical(classes="aside--foot"):
            yield Static(classes="aside--cost")
            yield KeyHints()

    def set_up(self) -> None:
        self.show_answer()

    @property
    def _aside(self) -> AsideState:
        return self._asides.get(self._shown, AsideState())

    def show_answer(self) -> None:
        """Show the answer as far as it is known."""
        if not self.query(KeyHints):
            return
        aside, ids = self._aside, list(self._asides)
        number = f"{ids.index(self._shown) + 1} of {len(ids)}: " if len(ids) > 1 and self._shown in ids else ""
        title = Content(fit_line(f"{number}{aside.question}", LONGEST_QUESTION))
        self.query_one(".dialog-title", Static).update(title)
        self.query_one(PageText).redraw()
        end = aside.answered
        cost = self.query_one(".aside--cost", Static)
        cost.update(Content.styled(fit_line(describe_cost(end), LONGEST_QUESTION) if end else "", "$foreground 60%"))
        cost.display = end is not None
        turning: tuple[Hint, ...] = (("aside.earlier", "earlier"), ("aside.later", "later")) if len(ids) > 1 else ()
        copying: tuple[Hint, ...] = (("aside.copy", "copy"),) if aside.text.strip() else ()
        leaving = ("aside.leave", "back" if end is not None else "stop")
        self.query_one(KeyHints).show((*copying, *turning, leaving))

    def _draw(self, width: int) -> Content:
        from tui.widgets.markdown_rows import render_styled_markdown

        aside = self._aside
        parts = list(render_styled_markdown(shorten_lines(render_prose(aside.text)), width))
        if aside.answered is not None and aside.answered.problem:
            parts.append((f"! {render_prose(aside.answered.problem)}\n", "$text-warning"))
        elif aside.answered is None and not aside.text:
            parts.append((WAITING, "$foreground 60%"))
        return Content.assemble(*parts).rstrip()

    def action_copy(self) -> None:
        self._copy(self._aside.text.strip())

    def action_move(self, step: int) -> None:
        """Show the side question before or after this one."""
        ids = list(self._asides)
        if self._shown in ids:
            self._shown = ids[min(max(ids.index(self._shown) + step, 0), len(ids) - 1)]
            self.show_answer()
            self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_leave(self) -> None:
        if self._aside.answered is None:
            self._stop(self._shown)
        super().action_leave()
