"""The base of the dialogs of a commit and a pull request: a text to be edited, what it is about, what is printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static, TextArea

from core.protocol.commands import AnyCommand
from core.protocol.events import AnyEvent, CommitFailed, ErrorRaised
from tui.screens.dialogs.dialog import Dialog
from tui.text import render_output, to_content
from tui.widgets.key_hints import Hint, KeyHints

Submit = Callable[[AnyCommand], None]
Edit = Callable[[str, str], str | None]
MAX_OUTPUT: Final = 20_000  # characters of what hooks print, its end


class DraftDialog(Dialog[None]):
    """Edits a text that is sent with one key. `submit` sends a command of it; `edit` takes the text and the suffix of
    its file to the user's own editor. What comes of a command is handed to `show_end`."""

    shape = "wide draft"
    asks_consent = True
    hints: ClassVar[tuple[Hint, ...]] = ()
    suffix: ClassVar[str] = ".md"

    def __init__(self, title: str, submit: Submit, edit: Edit) -> None:
        super().__init__(title)
        self._submit, self._edit = submit, edit
        self.is_busy = self._is_drafting = False
        self._untouched = ""

    def compose_body(self) -> ComposeResult:
        yield Static(id="draft-head")
        yield TextArea(id="draft-text", soft_wrap=True, tab_behavior="focus")
        yield Static(id="draft-facts")
        with VerticalScroll(id="draft-log"):
            yield Static(id="draft-output")
        yield KeyHints(id="draft-keys")

    def set_up(self) -> None:
        self.editor.cursor_blink = False
        self.editor.focus()
        self.query_one("#draft-log").can_focus = False
        self.query_one("#draft-log").display = False
        self.show_keys()

    @property
    def editor(self) -> TextArea:
        return self.query_one("#draft-text", TextArea)

    @property
    def is_at_work(self) -> bool:
        """True if the end of a command is waited for."""
        return self.is_busy or self._is_drafting

    @property
    def is_touched(self) -> bool:
        """True if the user has written something."""
        return self.editor.text != self._untouched

    def show_text(self, text: str) -> None:
        """Show a proposed text; what the user has written stays."""
        self._untouched = text
        self.editor.text = text
        self.editor.move_cursor((0, 0))

    def show_head(self, head: Content) -> None:
        self.query_one("#draft-head", Static).update(head)

    def show_facts(self, facts: Content) -> None:
        self.query_one("#draft-facts", Static).update(facts)

    def show_keys(self) -> None:
        useful = (hint for hint in self.hints if hint[0] not in self.list_useless())
        self.query_one(KeyHints).show(useful)

    def list_useless(self) -> tuple[str, ...]:
        """Return the ids of keys that do nothing now."""
        return ()

    def show_output(self, text: str) -> None:
        """Show what hooks or git print, from its end."""
        log = self.query_one("#draft-log", VerticalScroll)
        log.display = bool(text.strip())
        self.query_one("#draft-output", Static).update(to_content(render_output(text[-MAX_OUTPUT:]).rstrip()))
        log.scroll_end(animate=False)

    def show_end(self, event: AnyEvent) -> None:
        """Show what came of a command; a failure leaves everything to be tried again."""
        if isinstance(event, CommitFailed | ErrorRaised):
            self.is_busy = False
            output = event.output if isinstance(event, CommitFailed) else ""
            message = f"{event.message[:1].upper()}{event.message[1:]} {event.hint}"
            self.show_output(f"{output}\n{message}".strip())
            self.query_one("#draft-log").add_class("-failed")

    def show_refusal(self) -> None:
        """Show that the last command was refused; why is told by a toast."""
        self.is_busy = self._is_drafting = False
        self.show_output("")

    def send(self, command: AnyCommand) -> None:
        """Send a command, unless one is at work or the dialog has just been shown."""
        if self.is_busy or not self.can_take_answer():
            return
        self.is_busy = True
        self.query_one("#draft-log").remove_class("-failed")
        self.show_output("…")
        self._submit(command)

    def action_edit(self) -> None:
        text = self._edit(self.editor.text, self.suffix)
        if text is not None:
            self.editor.text = text
