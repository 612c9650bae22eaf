"""The bar that asks before a command runs: exactly what would run, where, and how far it could reach.

It never takes a key from the prompt, and Enter does nothing in it. It ignores keys for half a second after it came up
on screen, and as long as what would run is not seen there. It shows what the answer binds and nothing that the model
chose but its explanation, which is set apart and labelled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from core.lookalikes import marked
from core.protocol.events import ApprovalRequested, Decision
from core.protocol.queries import PatternPreview
from tui.keymap import bindings, key_of
from tui.sight import Guard, Guarded, is_whole
from tui.text import exposed, named, one_line

GRACE: Final = 0.5
_LONG: Final = 400
_TITLES: Final = {
    "command": "Run this command?",
    "mode": "Switch the mode?",
    "tool": "Allow this?",
    "network": "It wanted the network. Let it reach this, and run it again?",
}
_CHOICES: Final[tuple[tuple[str, Decision, str], ...]] = (
    ("approval.allow", "allow_once", "allow once"),
    ("approval.session", "allow_session", "in this session"),
    ("approval.always", "allow_always", "always exactly this"),
    ("approval.pattern", "allow_always", "always a pattern…"),
    ("approval.reject", "reject_once", "reject"),
    ("approval.never", "reject_always", "never exactly this"),
)
_BLANKS: Final = re.compile(r"(?: {24,}|\t{8,}|\n{4,})")
_DIM: Final = "$foreground 60%"


def told(subject: str) -> str:
    """A command as the user judges it: what can't be seen is named, and long blanks are counted."""
    return _BLANKS.sub(_counted, exposed(marked(subject).replace("\r", "‹CR›"))).expandtabs(4)


def _counted(blanks: re.Match[str]) -> str:
    name = {" ": "spaces", "\t": "tabs", "\n": "line ends"}[blanks[0][0]]
    return f"‹{len(blanks[0]):,} {name}›"


class ApprovalBar(Guarded, Vertical, can_focus=True):
    """Shows one request at a time."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("approval")

    @dataclass
    class Answered(Message):
        """The user decided. `pattern`: what they typed to be kept, "" = exactly what was asked."""

        id: str
        decision: Decision
        pattern: str = ""

    @dataclass
    class Typed(Message):
        """The user is typing a pattern for a command."""

        pattern: str
        command: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._request: ApprovalRequested | None = None
        self.guard = Guard(GRACE)
        self._can_keep = False
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static(id="approval-title")
        with VerticalScroll(id="approval-subject", can_focus=False):
            yield Static(id="approval-text")
        yield Static(id="approval-about")
        yield Static(id="approval-keys")
        yield Input(placeholder="a command with * for anything", id="approval-pattern")
        yield Static(id="approval-preview")

    def ask(self, request: ApprovalRequested | None) -> bool:
        """Show a request (None hides the bar). True: it is another one than before."""
        is_new = request is not None and (self._request is None or request.id != self._request.id)
        self._request = request
        self.display = request is not None
        if request is not None and is_new:
            self.unseen()
            self._fill(request)
        return is_new

    def _fill(self, request: ApprovalRequested) -> None:
        self._typing(False)
        title = [(_TITLES.get(request.kind, "Allow this?"), "bold $warning")]
        size = len(request.subject)
        lines = request.subject.count("\n") + 1
        if size > _LONG or lines > 8:
            tail = one_line(told(request.subject[-60:]))
            title.append((f"  {size:,} characters, {lines:,} lines, ending: …{tail}", "$warning"))
        self.query_one("#approval-title", Static).update(Content.assemble(*title))
        self.query_one("#approval-text", Static).update(Content(told(request.subject)))
        self.query_one("#approval-subject", VerticalScroll).scroll_home(animate=False)
        self.query_one("#approval-about", Static).update(Content.assemble(*_about(request)))
        self.query_one("#approval-keys", Static).update(Content.assemble(*self._keys(request)))

    def _keys(self, request: ApprovalRequested) -> list[tuple[str, str]]:
        keymap = getattr(self.app, "keymap", {})
        parts: list[tuple[str, str]] = []
        for key, decision, words in _CHOICES:
            if decision in request.options and (key != "approval.pattern" or request.kind == "command"):
                parts += [(key_of(key, keymap), "$accent bold"), (f" {words}   ", "")]
        return parts

    def action_answer(self, decision: Decision) -> None:
        """Decide, unless the bar has only just come up."""
        request = self._request
        if request is None or decision not in request.options or not self.is_read():
            return
        self.post_message(self.Answered(request.id, decision))

    def is_read(self) -> bool:
        return is_whole(self.query_one("#approval-subject")) and super().is_read()

    def action_page(self, lines: int) -> None:
        """Scroll through a long command."""
        self.query_one("#approval-subject", VerticalScroll).scroll_relative(y=lines, animate=False)

    # A pattern of the user's own.

    def action_type_pattern(self) -> None:
        """Type what is to be allowed from now on."""
        request = self._request
        if request is None or request.kind != "command" or "allow_always" not in request.options:
            return
        if self.is_read():
            box = self.query_one("#approval-pattern", Input)
            self._typing(True)
            box.value = one_line(request.subject, 2_000) if "\n" not in request.subject else ""
            box.focus()

    def action_cancel_pattern(self) -> None:
        """Back to the choices."""
        if not self.query_one("#approval-pattern").display:
            raise SkipAction
        self._typing(False)
        self.focus()

    def _typing(self, on: bool) -> None:
        self._can_keep = False
        self.query_one("#approval-pattern").display = on
        self.query_one("#approval-preview").display = on
        self.query_one("#approval-keys").display = not on

    @on(Input.Changed, "#approval-pattern")
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._can_keep = False
        if self._request is not None and event.input.display:
            self.post_message(self.Typed(event.value, self._request.subject))

    def preview(self, pattern: str, found: PatternPreview) -> None:
        """What the pattern would allow, unless it was changed meanwhile."""
        if pattern != self.query_one("#approval-pattern", Input).value:
            return
        self._can_keep = not found.problem
        if found.problem:
            parts = [(one_line(exposed(found.problem), 300), "$error")]
        else:
            parts = [("allows this command", "$success")]
            parts += [(f" and {one_line(exposed(found.example), 120)}", "")] if found.example else [(" alone", "")]
            parts += [(f"\nand of this session: {one_line(exposed('; '.join(found.also)), 300)}", _DIM)] * bool(
                found.also
            )
            parts += [("\nenter keeps it and runs the command · escape goes back", _DIM)]
        self.query_one("#approval-preview", Static).update(Content.assemble(*parts))

    @on(Input.Submitted, "#approval-pattern")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._request is not None and self._can_keep:
            self._typing(False)
            self.post_message(self.Answered(self._request.id, "allow_always", event.value))


def _about(request: ApprovalRequested) -> list[tuple[str, str]]:
    """Where and how it would run, why it is asked about, and, apart, what the model says."""
    about = []
    if request.kind == "command":
        where = "the project's directory" if request.directory in {"", "."} else named(request.directory)
        about.append((f"in {where}", _DIM))
    if request.containment:
        about.append((f"\n{one_line(told(request.containment))}", "$warning"))
    if request.network:
        about.append((f"\ncan reach: {one_line(exposed(', '.join(request.network)))}", "$warning"))
    if request.environment:
        about.append((f"\nvariables set by commands: {one_line(exposed(', '.join(request.environment)))}", _DIM))
    if request.reason:
        about.append((f"\nasked because: {one_line(request.reason)}", _DIM))
    if request.explanation:
        about.append((f"\nthe model says: {one_line(request.explanation, 400)}", f"{_DIM} italic"))
    return about or [("", "")]
