"""The plan: its todos, what each waits for and which are ready, and the text below.

Todos of a plan and todos without one look the same. A key asks for a change; it shows when the engine has made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, get_args

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.documents import Todo, TodoStatus
from core.protocol.events import TodoVerified
from core.protocol.plans import Plan
from tui.keymap import bindings
from tui.text import clean, shortened
from tui.widgets.code_view import CodeView
from tui.widgets.plan_edits import added, ids_in, moved, with_content, with_needs, with_proof
from tui.widgets.plan_graph import Row, graph
from tui.widgets.plan_rows import fits, title, todo_row

ORDER: Final[tuple[TodoStatus, ...]] = ("pending", "in_progress", "completed", "cancelled")
Purpose = Literal["add", "edit", "needs", "verify", "filter"]
PLACEHOLDERS: Final[Mapping[Purpose, str]] = {
    "add": "What is to be done. Enter adds it below the marked todo",
    "edit": "What is to be done. Enter changes it",
    "needs": "Ids that it waits for, with commas between them; empty: it waits for nothing",
    "verify": "A command that has to pass before it is completed; empty: none",
    "filter": "Words, or ready, blocked, done. Enter stays with what was found, Escape shows all",
}
EMPTY: Final = (
    "No plan yet\n\nIn Plan mode the agent writes one with you: todos that depend on each other, kept as a file in "
    ".cursor/plans. Press shift+tab for the mode."
)


class PlanText(CodeView):
    """The body of a plan as laid-out Markdown, drawn row by row."""

    def __init__(self) -> None:
        super().__init__()
        self._body = self._message = ""
        self._rows: list[list[tuple[str, str]]] = []

    def show(self, body: str, message: str = "") -> None:
        """Show a body, or, if there is nothing at all, a calm text."""
        if (body, message) != (self._body, self._message):
            self._body, self._message = body, message
            self.scroll_to(0, 0, animate=False)
            self._lay_out()

    def _lay_out(self) -> None:
        if not self._body:
            self._rows = []
        else:
            from tui.markdown import render

            text = shortened(clean(self._body), 20_000)
            rows = render(
                text, max(self.size.width - 3, 10), lambda code, _: [[(each, "code")] for each in code.split("\n")]
            )
            self._rows = [list(row.pieces) for row in rows]
        self.virtual_size = Size(0, len(self._rows))
        self.redraw()

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    def row_count(self) -> int:
        return self.size.height if self._message else len(self._rows)

    def row_text(self, row: int) -> str:
        return "".join(text for text, _ in self._rows[row]) if row < len(self._rows) else ""

    def draw(self, row: int, width: int, shift: int) -> Strip:
        if self._message:
            return self.draw_message(self._message, row, width)
        text, spans, at = self.row_text(row), [], 0
        for piece, role in self._rows[row]:
            spans.append((at, at + len(piece), _BODY.get(role, "")))
            at += len(piece)
        code = self.code(
            text, self.ink("$foreground 85%"), row=row, spans=(), marks=[each for each in spans if each[2]]
        )
        margin = self.paint([(" ", self.ink(""))])
        return Strip.join([margin, code]).crop_extend(shift, shift + width, self.visual_style.rich_style)


_BODY: Final[Mapping[str, str]] = {
    "heading": "bold $text-primary",
    "strong": "bold",
    "em": "italic",
    "code": "$text-accent",
    "muted": "$foreground 50%",
    "accent": "$primary",
    "link": "underline",
}


class TodoList(OptionList):
    """One todo an option; the keys that change it are the panel's."""

    DEFAULT_CSS = """
    TodoList { height: auto; max-height: 60%; border: none; padding: 0; background: $background; }
    TodoList:focus { border: none; background-tint: $background 0%; }
    TodoList > .option-list--option-highlighted { background: $foreground 10%; color: $foreground; text-style: none; }
    TodoList:focus > .option-list--option-highlighted { background: $primary 35%; text-style: none; }
    TodoList { scrollbar-size-vertical: 1; scrollbar-color: $foreground 20%; scrollbar-background: $background; }
    """


class PlanLine(Input):
    """The one line at the foot: what a new todo says, what one waits for, what is looked for."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("reason")
    purpose: Purpose = "add"

    class Cancelled(Message):
        """The user changed their mind."""

    def ask(self, purpose: Purpose, value: str = "") -> None:
        """Come up for a purpose, with the focus."""
        self.purpose = purpose
        self.value, self.placeholder = value, PLACEHOLDERS[purpose]
        self.cursor_position = len(value)
        self.display = True
        self.focus()

    def action_cancel(self) -> None:
        """Back without an answer."""
        self.post_message(self.Cancelled())


class PlanPanel(Vertical):
    """Shows a plan, or todos alone, as a list or as a graph."""

    DEFAULT_CSS = """
    PlanPanel { width: 1fr; height: 1fr; background: $background; }
    PlanPanel > .plan--title { height: auto; max-height: 4; padding: 0 1; background: $surface; }
    PlanLine { dock: bottom; display: none; height: 1; border: none; padding: 0 1; background: $surface; }
    PlanLine:focus { border: none; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("plan")

    @dataclass
    class SetStatus(Message):
        """A todo is to get a status."""

        id: str
        status: TodoStatus

    @dataclass
    class Build(Message):
        """A plan is to be worked through; `todo`: this one alone; `fresh`: without the conversation."""

        path: str
        todo: str = ""
        fresh: bool = False

    @dataclass
    class Edited(Message):
        """The todos of a plan are to be these."""

        path: str
        todos: tuple[Todo, ...]

    @dataclass
    class Removes(Message):
        """A todo is to go."""

        path: str
        id: str

    @dataclass
    class ShowsHunks(Message):
        """The changes that were made for a todo are to be shown."""

        id: str

    @dataclass
    class EditsText(Message):
        """The text of a plan is to be edited."""

        path: str
        body: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._plan: Plan | None = None
        self._todos: tuple[Todo, ...] = ()
        self._shown: tuple[Todo, ...] = ()
        self._proofs: dict[str, TodoVerified] = {}
        self._is_graph = False
        self._pattern = ""

    def compose(self) -> ComposeResult:
        yield Static(classes="plan--title")
        yield TodoList(markup=False, compact=True)
        yield PlanText()
        line = PlanLine(compact=True, select_on_focus=False)
        line.cursor_blink = False
        yield line

    def on_mount(self) -> None:
        self._show()

    def set_plan(
        self, plan: Plan | None, todos: tuple[Todo, ...], proofs: Mapping[str, TodoVerified] | None = None
    ) -> None:
        """`todos` carry the live status; with none given those of the plan are shown. `proofs`: how the command of a
        todo went last, by its id."""
        wanted = (plan, todos or (plan.todos if plan else ()), dict(proofs or {}))
        if wanted == (self._plan, self._todos, self._proofs):
            return  # a long plan takes its time
        self._plan, self._todos, self._proofs = wanted
        if self.is_mounted:
            self._show()

    def focus(self, scroll_visible: bool = True) -> PlanPanel:
        target = self.query_one(TodoList) if self._todos else self.query_one(PlanText)
        target.focus(scroll_visible)
        return self

    def _show(self) -> None:
        plan, todos = self._plan, self._todos
        heading = self.query_one(".plan--title", Static)
        heading.display = bool(plan or todos)
        heading.update(title(plan, todos, max(self.size.width - 2, 20)))
        self._show_todos()
        nothing = plan is None and not todos
        self.query_one(PlanText).show(plan.body if plan else "", EMPTY if nothing else "")

    def _show_todos(self) -> None:
        choices = self.query_one(TodoList)
        choices.display = bool(self._todos)
        choices.disabled = not self._todos  # so that nothing gives the focus to what is not seen
        marked = self._marked
        place = choices.highlighted or 0
        width = max(self.size.width - 3, 20)
        by_id = {todo.id: todo for todo in self._todos}
        rows = graph(self._todos) if self._is_graph else [Row("", todo) for todo in self._todos]
        rows = [row for row in rows if fits(row.todo, by_id, self._pattern)]
        self._shown = tuple(row.todo for row in rows)
        choices.set_options(
            [Option(todo_row(todo, by_id, width, lines=lines, proof=self._proofs.get(todo.id))) for lines, todo in rows]
        )
        if self._shown:
            kept = next((at for at, todo in enumerate(self._shown) if marked and todo.id == marked.id), place)
            choices.highlighted = min(kept, len(self._shown) - 1)

    @property
    def _marked(self) -> Todo | None:
        """The todo under the cursor."""
        at = self.query_one(TodoList).highlighted
        return self._shown[at] if at is not None and at < len(self._shown) else None

    def mark(self, key: str) -> None:
        """Go to a todo; a filter that hides it is dropped."""
        if all(todo.id != key for todo in self._shown):
            self._pattern = ""
            self._show_todos()
        at = next((number for number, todo in enumerate(self._shown) if todo.id == key), None)
        if at is not None:
            self.query_one(TodoList).highlighted = at

    def on_resize(self) -> None:
        self._show()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()

    # What the keys do

    def action_toggle_view(self) -> None:
        """The list, or the graph."""
        self._is_graph = not self._is_graph
        self._show_todos()

    def action_cycle(self) -> None:
        """The next status."""
        if (todo := self._marked) is not None:
            self.post_message(self.SetStatus(todo.id, ORDER[(ORDER.index(todo.status) + 1) % len(ORDER)]))

    def action_build(self, how: str = "") -> None:
        """Work the plan, or one todo of it."""
        if self._plan is not None:
            todo = self._marked.id if how == "one" and self._marked else ""
            self.post_message(self.Build(self._plan.path, todo, how == "fresh"))

    def action_move(self, step: int) -> None:
        """A place higher or lower."""
        if (todo := self._marked) is not None:
            self._edit(moved(self._todos, todo.id, step))

    def action_remove(self) -> None:
        """Take a todo out."""
        if self._plan is not None and (todo := self._marked) is not None:
            self.post_message(self.Removes(self._plan.path, todo.id))

    def action_hunks(self) -> None:
        """What was changed for this todo."""
        if (todo := self._marked) is not None:
            self.post_message(self.ShowsHunks(todo.id))

    def action_edit_text(self) -> None:
        """The text of the plan, in an editor."""
        if self._plan is not None:
            self.post_message(self.EditsText(self._plan.path, self._plan.body))

    def action_ask(self, purpose: str) -> None:
        """Type what is to be changed, at the foot."""
        todo = self._marked
        wanted = next((each for each in get_args(Purpose) if each == purpose), None)
        if wanted is None or (wanted != "filter" and self._plan is None):
            return
        if wanted not in {"add", "filter"} and todo is None:
            return
        value = {"filter": self._pattern, "add": ""}.get(purpose)
        if value is None and todo is not None:
            value = {"edit": todo.content, "needs": ", ".join(todo.dependencies), "verify": todo.verify}[purpose]
        self.query_one(PlanLine).ask(wanted, value or "")

    def _edit(self, todos: tuple[Todo, ...]) -> None:
        if self._plan is not None and todos != self._todos:
            self.post_message(self.Edited(self._plan.path, todos))

    # The line at the foot

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        line = self.query_one(PlanLine)
        if line.display and line.purpose == "filter":
            self._pattern = event.value
            self._show_todos()

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        purpose, text = self.query_one(PlanLine).purpose, event.value.strip()
        self._close_line()
        todo = self._marked
        key = todo.id if todo else ""
        match purpose:
            case "add" if text:
                self._edit(added(self._todos, key, text))
            case "edit" if text:
                self._edit(with_content(self._todos, key, text))
            case "needs":
                self._edit(with_needs(self._todos, key, ids_in(text)))
            case "verify":
                self._edit(with_proof(self._todos, key, text))
            case _:
                return

    @on(PlanLine.Cancelled)
    def _cancelled(self, event: PlanLine.Cancelled) -> None:
        event.stop()
        if self.query_one(PlanLine).purpose == "filter":
            self._pattern = ""
            self._show_todos()
        self._close_line()

    def _close_line(self) -> None:
        self.query_one(PlanLine).display = False
        self.focus()
