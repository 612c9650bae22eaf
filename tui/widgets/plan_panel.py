"""The plan: its todos, what each waits for and which are ready, and the text below.

Todos of a plan and todos without one look the same. A key asks for a change; it shows when the engine has made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, get_args

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input, Static

from core.protocol.commands import MOST_AT_ONCE
from core.protocol.documents import Todo, TodoStatus
from core.protocol.events import TodoVerified
from core.protocol.plans import Plan
from core.protocol.review import Comment
from tui.keymap import bindings, key_of
from tui.text import one_line
from tui.widgets.hunk_editor import is_plain
from tui.widgets.plan_asking import PlanAsking
from tui.widgets.plan_editor import PlanEditor
from tui.widgets.plan_edits import added, ids_in, moved, placed, with_content, with_needs, with_proof
from tui.widgets.plan_graph import MAX_LANES, MORE, Row, graph
from tui.widgets.plan_line import PlanLine, Purpose
from tui.widgets.plan_rows import fits, title
from tui.widgets.plan_text import PlanText
from tui.widgets.plan_todos import TodoList

ORDER: Final[tuple[TodoStatus, ...]] = ("pending", "in_progress", "completed", "cancelled")
ABOUT_TODO: Final = frozenset({"cycle", "move", "remove", "hunks", "ask"})
EMPTY: Final = (
    "No plan yet\n\nIn Plan mode the agent writes one with you: todos that depend on each other, kept as a file in "
    ".cursor/plans. Press shift+tab for the mode; /plans opens one that is there."
)
CAPPED: Final = (
    f"{MORE} Not all lines are drawn: {MAX_LANES} fit beside each other. The list names what each waits for."
)


class PlanPanel(PlanAsking):
    """Shows a plan, or todos alone, as a list or as a graph."""

    DEFAULT_CSS = """
    PlanPanel { width: 1fr; height: 1fr; background: $background; }
    PlanPanel > .plan--title { height: auto; max-height: 4; padding: 0 1; background: $surface; }
    PlanPanel > .plan--note { height: auto; padding: 0 1; color: $text-warning; display: none; }
    PlanPanel.-reading > TodoList { max-height: 30%; }
    PlanPanel.-noted > .plan--note { display: block; }
    PlanPanel.-bare > TodoList, PlanPanel.-empty > .plan--title { display: none; }
    PlanPanel.-writing > .plan--title, PlanPanel.-writing > .plan--note { display: none; }
    PlanPanel.-writing > TodoList, PlanPanel.-writing > PlanText { display: none; }
    PlanPanel > PlanEditor, PlanPanel > PlanEditor:focus { height: 1fr; border: none; padding: 0 1; }
    PlanLine { dock: bottom; display: none; height: 1; border: none; padding: 0 1; background: $surface; }
    PlanLine:focus { border: none; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("plan")

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._plan: Plan | None = None
        self._todos: tuple[Todo, ...] = ()
        self._comments: tuple[Comment, ...] = ()
        self._hunks: dict[str, int] = {}
        self._doing: dict[str, str] = {}
        self._by_id: dict[str, Todo] = {}
        self._shape: list[tuple[str, tuple[str, ...]]] = []
        self._graph: list[Row] = []
        self._said = PlanText.Says(0, "", None)
        self._proofs: dict[str, TodoVerified] = {}
        self._is_graph = False
        self._pattern = ""
        self._new = ""  # a todo that was asked for and has not come yet

    def compose(self) -> ComposeResult:
        yield Static(classes="plan--title")
        yield Static(classes="plan--note", markup=False)
        yield TodoList()
        yield PlanText()
        line = PlanLine(compact=True, select_on_focus=False)
        line.cursor_blink = False
        yield line

    def on_mount(self) -> None:
        self._show()

    def set_plan(
        self,
        plan: Plan | None,
        todos: tuple[Todo, ...],
        proofs: Mapping[str, TodoVerified] | None = None,
        *,
        comments: tuple[Comment, ...] = (),
        hunks: Mapping[str, int] | None = None,
        doing: Mapping[str, str] | None = None,
    ) -> None:
        """`todos` carry the live status; with none given those of the plan are shown. `proofs`: how the command of a
        todo went last, `hunks`: how many wait that were made for it, `doing`: what the subagent does that is at it, by
        its id. `comments`: what was said of this plan and not sent."""
        live = todos or (plan.todos if plan else ())
        wanted = (plan, live, dict(proofs or {}), comments, dict(hunks or {}))
        is_same = wanted == (self._plan, self._todos, self._proofs, self._comments, self._hunks)
        was, self._doing = self._doing, dict(doing or {})
        if is_same:
            if was != self._doing and self.is_mounted:
                self._show_todos()
            return
        is_other = self._plan is None or plan is None or plan.path != self._plan.path
        self._plan, self._todos, self._proofs, self._comments, self._hunks = wanted
        self._by_id = {todo.id: todo for todo in live}
        if is_other:
            self._pattern = self._new = ""
        if self.is_mounted:
            self._show(again=not is_other)
            if is_other and self.query_one(PlanText).has_focus:
                self.focus()  # there was nothing but a text when the panel came up

    def focus(self, scroll_visible: bool = True) -> PlanPanel:
        writing = self.query(PlanEditor)
        target = writing.first() if writing else self.query_one(TodoList) if self._todos else self.query_one(PlanText)
        target.focus(scroll_visible)
        return self

    def _show(self, *, again: bool = True) -> None:
        plan, todos = self._plan, self._todos
        heading = self.query_one(".plan--title", Static)
        self.set_class(not (plan or todos), "-empty")
        heading.update(title(plan, todos, max(self.size.width - 2, 20)))
        self._show_todos()
        nothing = plan is None and not todos
        text = self.query_one(PlanText)
        text.show(plan.body if plan else "", EMPTY if nothing else "", comments=self._comments, again=again)

    def _show_todos(self) -> None:
        self.set_class(not self._todos, "-bare")
        rows = self._graph_rows() if self._is_graph else [Row("", todo) for todo in self._todos]
        if self._pattern:
            rows = [row for row in rows if fits(row.todo, self._by_id, self._pattern)]
        self._note(rows)
        listed = self.query_one(TodoList)
        listed.disabled = not self._todos  # so that nothing gives the focus to what is not seen
        listed.show(
            rows,
            todos=self._by_id,
            proofs=self._proofs,
            hunks=self._hunks,
            doing=self._doing,
            is_graph=self._is_graph,
        )
        if self._new in self._by_id:
            key, self._new = self._new, ""
            self.mark(key)

    def _note(self, rows: Sequence[Row]) -> None:
        """What is not seen, and why."""
        notes = [CAPPED] if self._is_graph and any(row.lines.endswith(MORE) for row in rows) else []
        if pattern := one_line(self._pattern, 40):
            key = key_of("plan.unfilter", getattr(self.app, "keymap", {}))
            notes.append(f"Filter: {pattern} · {len(rows)} of {len(self._todos)} · {key} shows all")
        self.set_class(bool(notes), "-noted")
        self.query_one(".plan--note", Static).update("\n".join(notes))

    def _graph_rows(self) -> list[Row]:
        """The graph is laid out anew when who waits for whom has changed, and not for a status."""
        shape = [(todo.id, todo.dependencies) for todo in self._todos]
        if shape != self._shape:
            self._shape, self._graph = shape, graph(self._todos)
        return [Row(lines, self._by_id[todo.id]) for lines, todo in self._graph]

    @property
    def _marked(self) -> Todo | None:
        """The todo under the cursor."""
        return self.query_one(TodoList).marked

    def mark(self, key: str) -> None:
        """Go to a todo; a filter that hides it is dropped."""
        listed = self.query_one(TodoList)
        if not listed.mark(key) and self._pattern:
            self.action_unfilter()
            listed.mark(key)

    def action_unfilter(self) -> None:
        """Show all todos again."""
        self._pattern = ""
        self._show_todos()

    def on_resize(self) -> None:
        heading = self.query_one(".plan--title", Static)
        heading.update(title(self._plan, self._todos, max(self.size.width - 2, 20)))

    # What the keys do

    def action_toggle_view(self) -> None:
        """The list, or the graph."""
        self._is_graph = not self._is_graph
        self._show_todos()

    @on(TodoList.Cycled)
    def action_cycle(self) -> None:
        """The next status."""
        if (todo := self._marked) is not None:
            self.post_message(self.SetStatus(todo.id, ORDER[(ORDER.index(todo.status) + 1) % len(ORDER)]))

    def action_build(self, how: str = "") -> None:
        """Work the plan, or one todo of it."""
        if self._plan is not None:
            todo = self._marked.id if how == "one" and self._marked else ""
            workers = MOST_AT_ONCE if how == "parallel" else 1
            self.post_message(self.Build(self._plan.path, todo, how == "fresh", workers))

    def action_move(self, step: int) -> None:
        """A place higher or lower."""
        if (todo := self._marked) is not None:
            self._edit(moved(self._todos, todo.id, step))

    def action_remove(self) -> None:
        """Take a todo out."""
        if self._plan is not None and (todo := self._marked) is not None:
            self.post_message(self.Removes(self._plan.path, todo.id))

    @on(TodoList.Wanted)
    def action_hunks(self) -> None:
        """What was changed for this todo."""
        if (todo := self._marked) is not None:
            self.post_message(self.ShowsHunks(todo.id))

    def action_edit_text(self) -> None:
        """The text of the plan, in an editor."""
        if self._plan is not None:
            self.post_message(self.EditsText(self._plan))

    def action_send(self) -> None:
        """Look at the comments and send them."""
        self.post_message(self.WantsComments())

    @on(TodoList.Dropped)
    def _dropped(self, event: TodoList.Dropped) -> None:
        self._edit(placed(self._todos, event.id, event.target))

    @on(TodoList.Read)
    def _reads(self) -> None:
        self.add_class("-reading")  # the text gets the room, and the todos have it again when they are gone back to
        self.query_one(PlanText).focus()

    @on(PlanText.Leaves)
    def _leaves(self) -> None:
        self.remove_class("-reading")
        self.focus()

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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is done to the marked todo is not done from the text, where no todo is marked; and a filter that is not
        there is not dropped: the key goes on to the screen."""
        if action == "unfilter":
            return bool(self._pattern)
        is_about_todo = action in ABOUT_TODO and parameters != ("filter",)
        return not (is_about_todo and self.query_one(PlanText).has_focus)

    # The text

    @property
    def is_writing(self) -> bool:
        """Whether something was typed that is not saved."""
        return any(editor.is_changed for editor in self.query(PlanEditor))

    async def action_write(self) -> None:
        """The text of the plan, in an editor here."""
        if self._plan is None or self.query(PlanEditor):
            return
        if not is_plain(self._plan.body):
            self.post_message(self.Unfit())
            return
        self._writes(True)
        editor = PlanEditor(self._plan)
        await self.mount(editor, before=self.query_one(PlanLine))
        editor.focus()

    def stop_writing(self) -> None:
        """Put the editor away, with what is in it."""
        had_focus = any(editor.has_focus for editor in self.query(PlanEditor))
        for editor in self.query(PlanEditor):
            _ = editor.remove()
        self._writes(False)
        if had_focus or self.screen.focused is None:
            self.query_one(PlanText).focus()

    def _writes(self, is_writing: bool) -> None:
        self.set_class(is_writing, "-writing")
        self.screen.set_class(is_writing, "-writing")

    def on_show(self) -> None:
        self.screen.set_class(self.has_class("-writing"), "-writing")

    def on_hide(self) -> None:
        self.screen.remove_class("-writing")

    @on(PlanEditor.Saved)
    def _saved(self, event: PlanEditor.Saved) -> None:
        event.stop()
        self.post_message(self.WritesText(event.plan, event.body))

    @on(PlanEditor.Left)
    def _left(self, event: PlanEditor.Left) -> None:
        event.stop()
        if event.changed:
            self.post_message(self.Discards())
        else:
            self.stop_writing()

    @on(PlanText.Says)
    def _says(self, event: PlanText.Says) -> None:
        event.stop()
        self._said = event
        self.query_one(PlanText).ask(True)
        self.query_one(PlanLine).ask("comment", event.comment.text if event.comment else "")

    @on(PlanText.Unsays)
    def _unsays(self, event: PlanText.Unsays) -> None:
        event.stop()
        self.post_message(self.Comments(event.comment.path, "", id=event.comment.hunk))

    def _comment(self, text: str) -> None:
        said, known = self._said, self._said.comment
        if known is not None and text != known.text:
            self.post_message(self.Comments(known.path, text, id=known.hunk))
        elif known is None and text and self._plan is not None:
            self.post_message(self.Comments(self._plan.path, text, said.start, said.excerpt))

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
        if purpose == "comment":
            self._comment(text)
            return
        todo = self._marked
        key = todo.id if todo else ""
        match purpose:
            case "add" if text:
                todos = added(self._todos, key, text)
                self._new = next(each.id for each in todos if each.id not in self._by_id)
                self._edit(todos)
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
            self.action_unfilter()
        self._close_line()

    def _close_line(self) -> None:
        line = self.query_one(PlanLine)
        line.display = False
        self.query_one(PlanText).ask(False)
        if line.purpose == "comment":
            self.query_one(PlanText).focus()
        else:
            self.focus()
