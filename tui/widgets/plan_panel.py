"""The plan: its todos, what each waits for and which are ready, and the text below.

Todos of a plan and todos without one look the same. A key asks for another status; it shows when the engine has set it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.documents import Todo, TodoStatus
from core.protocol.plans import Plan
from tui.keymap import bindings
from tui.text import clean, one_line, shortened
from tui.widgets.code_view import CodeView

SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("○", "$foreground 45%"),
    "ready": ("○", "$primary bold"),
    "in_progress": ("◐", "$text-warning bold"),
    "completed": ("●", "$text-success"),
    "cancelled": ("✕", "$foreground 40%"),
}
TEXTS: Final[Mapping[str, str]] = {
    "pending": "$foreground 60%",
    "ready": "$foreground",
    "in_progress": "$foreground bold",
    "completed": "$foreground 50%",
    "cancelled": "$foreground 40% strike",
}
ORDER: Final[tuple[TodoStatus, ...]] = ("pending", "in_progress", "completed", "cancelled")
BAR: Final = 12
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


class PlanPanel(Vertical):
    """Shows a plan, or todos alone."""

    DEFAULT_CSS = """
    PlanPanel { width: 1fr; height: 1fr; background: $background; }
    PlanPanel > .plan--title { height: auto; max-height: 4; padding: 0 1; background: $surface; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("plan")

    @dataclass
    class SetStatus(Message):
        """A todo is to get a status."""

        id: str
        status: TodoStatus

    @dataclass
    class Build(Message):
        """A plan is to be worked through."""

        path: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._plan: Plan | None = None
        self._todos: tuple[Todo, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static(classes="plan--title")
        yield TodoList(markup=False, compact=True)
        yield PlanText()

    def on_mount(self) -> None:
        self._show()

    def set_plan(self, plan: Plan | None, todos: tuple[Todo, ...]) -> None:
        """`todos` carry the live status; with none given those of the plan are shown."""
        self._plan, self._todos = plan, todos or (plan.todos if plan else ())
        if self.is_mounted:
            self._show()

    def focus(self, scroll_visible: bool = True) -> PlanPanel:
        target = self.query_one(TodoList) if self._todos else self.query_one(PlanText)
        target.focus(scroll_visible)
        return self

    def _show(self) -> None:
        plan, todos = self._plan, self._todos
        title = self.query_one(".plan--title", Static)
        title.display = bool(plan or todos)
        title.update(_title(plan, todos, max(self.size.width - 2, 20)))
        self._show_todos()
        nothing = plan is None and not todos
        self.query_one(PlanText).show(plan.body if plan else "", EMPTY if nothing else "")

    def _show_todos(self) -> None:
        choices = self.query_one(TodoList)
        choices.display = bool(self._todos)
        choices.disabled = not self._todos  # so that nothing gives the focus to what is not seen
        place = choices.highlighted
        width = max(self.size.width - 3, 20)
        by_id = {todo.id: todo for todo in self._todos}
        choices.set_options([Option(_prompt(todo, by_id, width)) for todo in self._todos])
        if self._todos:
            choices.highlighted = min(place or 0, len(self._todos) - 1)

    def on_resize(self) -> None:
        self._show()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()

    def action_cycle(self) -> None:
        at = self.query_one(TodoList).highlighted
        if at is not None and at < len(self._todos):
            todo = self._todos[at]
            self.post_message(self.SetStatus(todo.id, ORDER[(ORDER.index(todo.status) + 1) % len(ORDER)]))

    def action_build(self) -> None:
        if self._plan is not None:
            self.post_message(self.Build(self._plan.path))


def waits_for(todo: Todo, todos: Mapping[str, Todo]) -> list[str]:
    """The ids of the todos that have to be completed before this one; a cancelled one is waited for no more."""
    settled = ("completed", "cancelled")
    return [each for each in todo.dependencies if each not in todos or todos[each].status not in settled]


def _prompt(todo: Todo, todos: Mapping[str, Todo], width: int) -> Content:
    waiting = waits_for(todo, todos) if todo.status == "pending" else []
    state = "ready" if todo.status == "pending" and not waiting else todo.status
    sign, colour = SIGNS[state]
    lines = Content.styled(one_line(todo.content, 600), TEXTS[state]).wrap(max(width - 4, 8))
    parts = [Content.styled(f" {sign} ", colour), lines[0]]
    for line in lines[1:]:
        parts += [Content("\n   "), line]
    if waiting:
        names = one_line(", ".join(waiting), max(width - 20, 12))
        parts.append(Content.styled(f"\n   waits for: {names}", "$foreground 45% italic"))
    return Content.assemble(*parts)


def _title(plan: Plan | None, todos: tuple[Todo, ...], width: int) -> Content:
    done = sum(todo.status == "completed" for todo in todos)
    count = sum(todo.status != "cancelled" for todo in todos)
    full = round(BAR * done / count) if count else 0
    name = one_line(plan.name if plan else "Todos", max(width - BAR - 10, 12))
    progress = f"{done}/{count}" if todos else ""
    gap = max(width - len(name) - len(progress) - (BAR + 1 if todos else 0), 1)
    parts = [Content.styled(name, "bold $foreground"), Content(" " * gap)]
    if todos:
        parts += [Content.styled("━" * full, "$success"), Content.styled("━" * (BAR - full), "$foreground 20%")]
        parts.append(Content.styled(f" {progress}", "$foreground 75%"))
    if plan is not None and plan.overview.strip():
        parts.append(Content.styled("\n" + one_line(plan.overview, width * 2), "$foreground 60%"))
    return Content.assemble(*parts)
