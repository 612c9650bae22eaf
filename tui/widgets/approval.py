"""The bar that asks before a command runs: exactly what would run, where, and how far it could reach.

It never takes a key from the prompt, ignores keys for half a second after it came up, and Enter does nothing in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from core.protocol.events import ApprovalRequested, Decision
from tui.keymap import bindings
from tui.text import exposed, one_line

GRACE: Final = 0.5
_LONG: Final = 400
_TITLES: Final = {"command": "Run this command?", "mode": "Switch the mode?", "tool": "Allow this?"}


class ApprovalBar(Vertical, can_focus=True):
    """Shows one request at a time."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("approval")

    @dataclass
    class Answered(Message):
        """The user decided."""

        id: str
        decision: Decision

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._request: ApprovalRequested | None = None
        self._since = 0.0
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static(id="approval-title")
        with VerticalScroll(id="approval-subject", can_focus=False):
            yield Static(id="approval-text")
        yield Static(id="approval-about")
        yield Static(id="approval-keys")

    def ask(self, request: ApprovalRequested | None) -> bool:
        """Show a request (None hides the bar). True: it is another one than before."""
        is_new = request is not None and (self._request is None or request.id != self._request.id)
        self._request = request
        self.display = request is not None
        if request is not None and is_new:
            self._since = monotonic()
            self._fill(request)
        return is_new

    def _fill(self, request: ApprovalRequested) -> None:
        subject = exposed(request.subject)
        title = [(_TITLES.get(request.kind, "Allow this?"), "bold $warning")]
        lines = subject.count("\n") + 1
        if len(subject) > _LONG or lines > 8:
            title.append(
                (f"  {len(subject):,} characters, {lines:,} lines, ending: …{one_line(subject[-60:])}", "$warning")
            )
        self.query_one("#approval-title", Static).update(Content.assemble(*title))
        self.query_one("#approval-text", Static).update(Content(subject.expandtabs(4)))
        where = "the project's directory" if request.directory in {"", "."} else one_line(exposed(request.directory))
        about = [(f"in {where}", "$foreground 60%")]
        if request.containment:
            about.append((f"\nconfinement: {one_line(request.containment)}", "$warning"))
        if request.explanation:
            about.append((f"\nthe model says: {one_line(request.explanation, 400)}", "$foreground 60% italic"))
        self.query_one("#approval-about", Static).update(Content.assemble(*about))
        options = [("y", "$accent bold"), (" allow once   ", ""), ("n", "$accent bold"), (" reject   ", "")]
        hint = [("f2", "$accent bold"), (" goes here from the prompt", "$foreground 60%")]
        self.query_one("#approval-keys", Static).update(Content.assemble(*options, *hint))

    def action_answer(self, decision: Decision) -> None:
        """Decide, unless the bar has only just come up."""
        request = self._request
        if request is None or decision not in request.options or monotonic() - self._since < GRACE:
            return
        self.post_message(self.Answered(request.id, decision))
