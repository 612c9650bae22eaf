"""The plan panel: its todos, its text and their editors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from core.protocol.commands import MAX_SUBAGENTS, PlanBuild, PlanComment
from core.protocol.documents import Plan, Todo
from core.protocol.events import TodoVerified
from core.protocol.review import Comment
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.panes import StatePane
from tui.plan import messages, todo_edits
from tui.plan.text_view import USUAL_PLACE, PlanText, describe_nothing
from tui.plan.todo_list import TodoList
from tui.plan.todo_rows import (
    UNDRAWN_MARK,
    UNDRAWN_NOTE,
    GraphRow,
    TodoFacts,
    count_hunks_by_todo,
    layout_graph,
    map_todo_activity,
    matches_filter,
    render_title,
)
from tui.review.hunk_editor import is_line_editable
from tui.review.messages import CommandRequested, CommentsRequested
from tui.state import ViewState
from tui.text import fit_line
from tui.widgets.input_line import InputLine, InputPurpose

TODO_ACTIONS: Final = frozenset({"cycle", "move", "remove", "show_hunks", "ask"})


class PlanInput(InputLine):
    """The input for a todo's text, dependencies or proof, for a filter, or for a comment."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {
        "add": InputPurpose("New todo. Enter adds it below this one", "done"),
        "edit": InputPurpose("Todo text. Enter saves it", "done"),
        "needs": InputPurpose("Ids it depends on, separated by commas; empty: none", "done"),
        "verify": InputPurpose("A command that must pass to complete it; empty: none", "done"),
        "filter": InputPurpose("Words, or ready, doing, blocked, done; esc: all", "keep filter", "show all"),
        "comment": InputPurpose("Your comment. Enter saves it (S sends), empty removes it", "keep"),
    }


class PlanEditor(TextArea):
    """Edits the body of `plan`; saving merges later changes of the plan."""

    BINDINGS = get_bindings("planeditor", priority=True)
    hints: Final = (("planeditor.save", "save"), ("planeditor.cancel", "cancel"), ("app.editor", "$EDITOR"))

    class Closed(Message):
        """The user leaves, and nothing is unsaved."""

    suffix = ".md"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.body, soft_wrap=True, tab_behavior="indent", show_line_numbers=False)
        self.plan = plan
        self.cursor_blink = False

    @property
    def is_changed(self) -> bool:
        return self.text != self.plan.body

    # Both wait for earlier keys, which may still be on their way to the text.
    def action_save(self) -> None:
        self.call_later(self._save)

    def _save(self) -> None:
        self.post_message(messages.TextSaved(self.plan, self.text) if self.is_changed else self.Closed())

    def action_cancel(self) -> None:
        self.call_later(self._cancel)

    def _cancel(self) -> None:
        self.post_message(messages.DiscardRequested() if self.is_changed else self.Closed())


class PlanPanel(StatePane):
    """Shows a plan, or todos alone, as a list or as a graph."""

    DEFAULT_CSS = """
    PlanPanel { width: 1fr; height: 1fr; background: $background; }
    PlanPanel > .plan--title { height: auto; max-height: 4; padding: 0 1; background: $surface; }
    PlanPanel > .plan--note { height: auto; padding: 0 1; color: $text-warning; display: none; }
    PlanPanel > PlanText { border-top: solid $foreground 20%; }
    PlanPanel.-reading > TodoList { max-height: 30%; }
    PlanPanel.-noted > .plan--note { display: block; }
    PlanPanel.-bare > PlanText, PlanPanel.-textless > PlanText { border-top: none; }
    PlanPanel.-bare > TodoList, PlanPanel.-empty > .plan--title { display: none; }
    PlanPanel.-writing > .plan--title, PlanPanel.-writing > .plan--note { display: none; }
    PlanPanel.-writing > TodoList, PlanPanel.-writing > PlanText { display: none; }
    PlanPanel > PlanEditor, PlanPanel > PlanEditor:focus { height: 1fr; border: none; padding: 0 1; }
    PlanInput { dock: bottom; }
    """

    BINDINGS = get_bindings("plan")
    hints: Final = (
        *(("plan.cycle", "status"), ("plan.build", "build"), ("plan.add", "new"), ("todos.read", "read")),
        *(("plan.edit", "edit"), ("plan.view", "graph"), ("plan.filter", "find"), ("plan.needs", "needs")),
        *(("plan.verify", "proof"), ("plan.hunks", "hunks")),
    )

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._plan: Plan | None = None
        self._todos: tuple[Todo, ...] = ()
        self._comments: tuple[Comment, ...] = ()
        self._facts = TodoFacts()
        self._graph_edges: list[tuple[str, tuple[str, ...]]] = []
        self._graph_layout: list[GraphRow] = []
        self._comment_target = PlanText.CommentRequested(0, "", None)
        self._is_graph = False
        self._pattern = ""
        self._expected_id = ""  # a todo that was asked for and has not come yet
        self._plan_names: tuple[str, ...] = ()  # plans of the project, while none is open
        self._plan_directory = USUAL_PLACE

    def compose(self) -> ComposeResult:
        yield Static(classes="plan--title")
        yield Static(classes="plan--note", markup=False)
        yield TodoList()
        yield PlanText()
        yield PlanInput(select_on_focus=False)

    def on_mount(self) -> None:
        self._render_plan()

    def show_state(self, state: ViewState) -> None:
        path = state.current_plan_path
        self.show(
            state.current_plan,
            state.plan_todos,
            {key: proof for key, proof in state.verifications.items() if proof.plan in {"", path}},
            comments=tuple(comment for comment in state.comments.values() if comment.on_plan and comment.path == path),
            hunks=count_hunks_by_todo(state.changes.values()),
            activities=map_todo_activity(state),
        )

    def show(
        self,
        plan: Plan | None,
        todos: tuple[Todo, ...],
        proofs: Mapping[str, TodoVerified] | None = None,
        *,
        comments: tuple[Comment, ...] = (),
        hunks: Mapping[str, int] | None = None,
        activities: Mapping[str, str] | None = None,
    ) -> None:
        """Show a plan with the unsent comments on it, and facts of todos; without live `todos` those of the plan."""
        live = todos or (plan.todos if plan else ())
        facts = TodoFacts({todo.id: todo for todo in live}, proofs or {}, hunks or {}, activities or {})
        is_same = (plan, live, comments) == (self._plan, self._todos, self._comments)
        if is_same and facts == self._facts:
            return
        is_other = not is_same and (self._plan is None or plan is None or plan.path != self._plan.path)
        self._plan, self._todos, self._comments, self._facts = plan, live, comments, facts
        if is_other:
            self._pattern = self._expected_id = ""
        if self.is_mounted:
            self._render_plan(is_same=not is_other)
            if is_other and self.query_one(PlanText).has_focus:
                self.focus()  # the panel had nothing but a text when it opened

    def show_plan_names(self, names: tuple[str, ...], directory: str) -> None:
        """List the project's plans, to choose from while none is open, and their directory."""
        self._plan_names, self._plan_directory = names, directory
        if self.is_mounted and not (self._plan or self._todos):
            self._render_plan()

    def focus(self, scroll_visible: bool = True) -> PlanPanel:
        writing = self.query(PlanEditor)
        target = writing.first() if writing else self.query_one(TodoList) if self._todos else self.query_one(PlanText)
        target.focus(scroll_visible)
        return self

    def _render_plan(self, *, is_same: bool = True) -> None:
        plan, todos = self._plan, self._todos
        self.set_class(not (plan or todos), "-empty")
        self.set_class(not (plan and plan.body.strip()), "-textless")
        self._render_title()
        self._render_todos()
        message = (
            "" if plan or todos else describe_nothing(self._plan_names, get_keymap(self.app), self._plan_directory)
        )
        self.query_one(PlanText).show(plan, message, comments=self._comments, is_same=is_same)

    def _render_todos(self) -> None:
        self.set_class(not self._todos, "-bare")
        rows = self._layout_graph() if self._is_graph else [GraphRow("", todo) for todo in self._todos]
        if self._pattern:
            rows = [row for row in rows if matches_filter(row.todo, self._facts.todos, self._pattern)]
        self._show_notes(rows)
        todo_list = self.query_one(TodoList)
        todo_list.disabled = not self._todos  # so that a hidden widget never gets the focus
        todo_list.show(rows, self._facts, is_graph=self._is_graph)
        if self._expected_id in self._facts.todos:
            key, self._expected_id = self._expected_id, ""
            self.select_todo(key)

    def _show_notes(self, rows: Sequence[GraphRow]) -> None:
        notes = [UNDRAWN_NOTE] if self._is_graph and any(row.lines.endswith(UNDRAWN_MARK) for row in rows) else []
        if pattern := fit_line(self._pattern, 40):
            key = format_first_key("plan.unfilter", get_keymap(self.app))
            notes.append(f"Filter: {pattern} · {len(rows)} of {len(self._todos)} · {key} show all")
        self.set_class(bool(notes), "-noted")
        self.query_one(".plan--note", Static).update("\n".join(notes))

    def _layout_graph(self) -> list[GraphRow]:
        """Return the graph; lay it out again only after changes of dependencies."""
        shape = [(todo.id, todo.dependencies) for todo in self._todos]
        if shape != self._graph_edges:
            self._graph_edges, self._graph_layout = shape, layout_graph(self._todos)
        return [GraphRow(lines, self._facts.todos[todo.id]) for lines, todo in self._graph_layout]

    @property
    def _current_todo(self) -> Todo | None:
        return self.query_one(TodoList).current_todo

    def select_todo(self, key: str) -> None:
        """Move the cursor to a todo; a filter that hides it is cleared."""
        todo_list = self.query_one(TodoList)
        if not todo_list.select_todo(key) and self._pattern:
            self.action_unfilter()
            todo_list.select_todo(key)

    def action_unfilter(self) -> None:
        self._pattern = ""
        self._render_todos()

    def on_resize(self) -> None:
        self._render_title()

    def _render_title(self) -> None:
        title = render_title(self._plan, self._todos, max(self.size.width - 2, 20))
        self.query_one(".plan--title", Static).update(title)

    def action_toggle_view(self) -> None:
        self._is_graph = not self._is_graph
        self._render_todos()

    @on(TodoList.StatusClicked)
    def action_cycle(self) -> None:
        if (todo := self._current_todo) is not None:
            self.post_message(messages.StatusRequested(todo.id, todo_edits.get_next_status(todo.status)))

    def action_build(self, method: str = "") -> None:
        """Build the plan; `method`: "", "one", "fresh" or "parallel"."""
        if self._plan is not None:
            todo = self._current_todo.id if method == "one" and self._current_todo else ""
            workers = MAX_SUBAGENTS if method == "parallel" else 1
            command = PlanBuild(path=self._plan.path, todo=todo, fresh=method == "fresh", workers=workers)
            self.post_message(messages.BuildRequested(command))

    def action_move(self, step: int) -> None:
        if (todo := self._current_todo) is not None:
            self._post_edit(todo_edits.move_todo(self._todos, todo.id, step))

    def action_remove(self) -> None:
        if self._plan is not None and (todo := self._current_todo) is not None:
            self.post_message(messages.RemovalRequested(self._plan.path, todo.id))

    @on(TodoList.HunksRequested)
    def action_show_hunks(self) -> None:
        if (todo := self._current_todo) is not None:
            self.post_message(messages.HunksRequested(todo.id))

    def action_edit_text(self) -> None:
        if self._plan is not None:
            self.post_message(messages.ExternalEditRequested(self._plan))

    def action_send_comments(self) -> None:
        self.post_message(CommentsRequested())

    @on(TodoList.Dropped)
    def _on_todo_dropped(self, event: TodoList.Dropped) -> None:
        self._post_edit(todo_edits.move_todo_to(self._todos, event.id, event.target))

    @on(TodoList.TextRequested)
    def _on_text_requested(self) -> None:
        self.add_class("-reading")  # the text gets the room until the user returns to the todos
        self.query_one(PlanText).focus()

    @on(PlanText.Left)
    def _on_text_left(self) -> None:
        if not (self._plan or self._todos):
            self.post_message(messages.PlanRequested())
        self.remove_class("-reading")
        self.focus()

    def action_ask(self, purpose: str) -> None:
        todo = self._current_todo
        if purpose != "filter" and (self._plan is None or (purpose != "add" and todo is None)):
            return
        value = {"filter": self._pattern, "add": ""}.get(purpose)
        if value is None and todo is not None:
            value = {"edit": todo.content, "needs": ", ".join(todo.dependencies), "verify": todo.verify}[purpose]
        self.query_one(PlanInput).ask(purpose, value or "")

    def _post_edit(self, todos: tuple[Todo, ...]) -> None:
        if self._plan is not None and todos != self._todos:
            self.post_message(messages.TodosEdited(self._plan.path, todos))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for a todo's action while the text has the focus, and for clearing a filter that is not set."""
        if action == "unfilter":
            return bool(self._pattern)
        is_about_todo = action in TODO_ACTIONS and parameters != ("filter",)
        return not (is_about_todo and self.query_one(PlanText).has_focus)

    @property
    def is_writing(self) -> bool:
        return any(editor.is_changed for editor in self.query(PlanEditor))

    async def action_edit_here(self) -> None:
        if self._plan is None or self.query(PlanEditor):
            return
        if not is_line_editable(self._plan.body):
            self.post_message(messages.NotEditable())
            return
        self._set_writing(True)
        editor = PlanEditor(self._plan)
        await self.mount(editor, before=self.query_one(PlanInput))
        editor.focus()

    @on(PlanEditor.Closed)
    def close_editor(self) -> None:
        had_focus = any(editor.has_focus for editor in self.query(PlanEditor))
        for editor in self.query(PlanEditor):
            _ = editor.remove()
        self._set_writing(False)
        if had_focus or self.screen.focused is None:
            self.query_one(PlanText).focus()

    def _set_writing(self, is_writing: bool) -> None:
        self.set_class(is_writing, "-writing")
        self.screen.set_class(is_writing, "-writing")

    def on_show(self) -> None:
        self.screen.set_class(self.has_class("-writing"), "-writing")

    def on_hide(self) -> None:
        self.screen.remove_class("-writing")

    @on(PlanText.CommentRequested)
    def _on_comment_requested(self, event: PlanText.CommentRequested) -> None:
        event.stop()
        self._comment_target = event
        self.query_one(PlanText).set_commenting(True)
        self.query_one(PlanInput).ask("comment", event.comment.text if event.comment else "")

    @on(PlanText.CommentRemoved)
    def _on_comment_removed(self, event: PlanText.CommentRemoved) -> None:
        event.stop()
        self._submit_comment(PlanComment(path=event.comment.path, text="", id=event.comment.hunk))

    def _submit_comment(self, comment: PlanComment) -> None:
        self.post_message(CommandRequested(comment))

    def _post_comment(self, text: str) -> None:
        target, previous_comment = self._comment_target, self._comment_target.comment
        if previous_comment is not None and text != previous_comment.text:
            self._submit_comment(PlanComment(path=previous_comment.path, text=text, id=previous_comment.hunk))
        elif previous_comment is None and text and self._plan is not None:
            comment = PlanComment(path=self._plan.path, text=text, start=target.start, excerpt=target.excerpt)
            self._submit_comment(comment)

    @on(Input.Changed)
    def _on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        line = self.query_one(PlanInput)
        if line.display and line.purpose == "filter":
            self._pattern = event.value
            self._render_todos()

    @on(Input.Submitted)
    def _on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        purpose, text = self.query_one(PlanInput).purpose, event.value.strip()
        self._close_input()
        if purpose == "comment":
            self._post_comment(text)
            return
        todo = self._current_todo
        key = todo.id if todo else ""
        match purpose:
            case "add" if text:
                todos = todo_edits.add_todo(self._todos, key, text)
                self._expected_id = next(candidate.id for candidate in todos if candidate.id not in self._facts.todos)
                self._post_edit(todos)
            case "edit" if text:
                self._post_edit(todo_edits.change_todos(self._todos, key, content=text))
            case "needs":
                self._post_edit(todo_edits.change_todos(self._todos, key, dependencies=todo_edits.parse_ids(text)))
            case "verify":
                self._post_edit(todo_edits.change_todos(self._todos, key, verify=text))
            case _:
                return

    @on(PlanInput.Cancelled)
    def _on_input_cancelled(self, event: PlanInput.Cancelled) -> None:
        event.stop()
        if self.query_one(PlanInput).purpose == "filter":
            self.action_unfilter()
        self._close_input()

    def _close_input(self) -> None:
        line = self.query_one(PlanInput)
        line.display = False
        self.query_one(PlanText).set_commenting(False)
        if line.purpose == "comment":
            self.query_one(PlanText).focus()
        else:
            self.focus()
