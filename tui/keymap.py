"""The key table: id, action and explanation of every key. Widgets take their bindings from here alone.

`get_bindings(scope)` is what a widget declares; `App.set_keymap({id: keys})` changes keys by id; the palette and the
key help read the same table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from textual.binding import Binding, BindingType

from core.modes import Mode
from tui.panes import PANES


@dataclass(frozen=True, slots=True)
class Key:
    """One key binding. `id` is `scope.word` and stable, `scope` names the widget; `keys` are separated by commas."""

    id: str
    keys: str
    action: str
    label: str
    tooltip: str

    @property
    def scope(self) -> str:
        return self.id.partition(".")[0]

    @property
    def has_priority(self) -> bool:
        """True if the key works before those of the widget that has the focus."""
        return self.id in _BEFORE_INPUT or (self.scope == "app" and self.id not in _AFTER_WIDGETS)


_MODES: Final = ", ".join(mode.title() for mode in Mode)
_AFTER_WIDGETS: Final = frozenset({"app.interrupt", "app.cancel"})  # a widget may have a meaning of its own for them
_BEFORE_INPUT: Final = frozenset({"picker.down", "picker.up", "welcome.leave"})

_ROWS: Final[tuple[tuple[str, str, str, str, str], ...]] = (
    ("app.mode_next", "shift+tab", "modes.next_mode", "Next mode", f"{_MODES} in turn"),
    ("app.mode_menu", "ctrl+full_stop", "modes.choose_mode", "Mode…", "Choose the mode from a list"),
    ("app.effort", "f7", "models.choose_effort", "Effort…", "How much the model thinks: choose it from a list"),
    ("app.models", "f8", "models.show_models", "Models", "Which model does what, and what it has cost"),
    ("app.palette", "ctrl+p", "command_palette", "Commands", "Search all commands"),
    ("app.keys", "f1", "pages.show_keys", "Keys", "All keys, by the place where they work"),
    ("app.files", "ctrl+b", "panes.toggle_files", "Files", "Show or hide the files of the project"),
    *((f"app.{each.name}", each.key, f"panes.show_pane('{each.name}')", each.label, each.tooltip) for each in PANES),
    ("app.interrupt", "escape", "turn.interrupt", "Interrupt / back", "Stop the turn, or go back to the prompt"),
    ("app.chat", "ctrl+up", "chat.focus_chat", "Conversation", "Go to the conversation, block by block"),
    ("app.page_up", "ctrl+pageup", "chat.scroll_chat(-1)", "Page up", "A screenful up in the conversation"),
    ("app.page_down", "ctrl+pagedown", "chat.scroll_chat(1)", "Page down", "A screenful down in it"),
    ("app.answer", "f2", "questions.focus_question", "Answer", "Go to the approval or the question that waits"),
    ("app.trust", "f3", "questions.answer_trust(True)", "Trust", "Trust the project, when that is asked"),
    ("app.distrust", "f4", "questions.answer_trust(False)", "Do not trust", "Go on without the project's own rules"),
    ("app.editor", "ctrl+g", "editor.external_editor", "Editor", "Write the prompt in your $EDITOR"),
    ("app.rewind", "f5", "rewind.rewind", "Go back…", "Go back to an earlier prompt, as esc twice does"),
    ("app.cancel", "ctrl+c", "chat.copy_or_clear", "Copy / clear", "Copy what is selected, else empty the prompt"),
    ("app.quit", "ctrl+q", "sessions.quit", "Quit", "Leave; asks first while a turn runs"),
    ("prompt.send", "enter", "send", "Send", "Send; while a turn runs: steer it"),
    ("prompt.newline", "shift+enter,ctrl+j", "newline", "New line", "Start a new line"),
    ("prompt.older", "up", "older", "Older prompt", "On the first line: the prompt before"),
    ("prompt.newer", "down", "newer", "Newer prompt", "On the last line: the prompt after"),
    ("prompt.attach", "ctrl+v,alt+v", "attach", "Attach", "The picture on the clipboard"),
    ("prompt.page_up", "pageup", "page(-1)", "Page up", "A screenful up, here or in the conversation"),
    ("prompt.page_down", "pagedown", "page(1)", "Page down", "A screenful down"),
    ("prompt.complete", "tab", "complete", "Complete", "Take the completion, or open it for @ and /"),
    ("transcript.previous", "up,k", "move(-1)", "Block above", "Go to the block above"),
    ("transcript.next", "down,j", "move(1)", "Block below", "Go to the block below"),
    ("transcript.toggle", "enter,space", "toggle_block", "Open / close", "Open or close the block"),
    ("transcript.copy", "c,y", "copy_block", "Copy block", "Copy the block's text without gutter and wraps"),
    ("transcript.top", "g,home", "top", "First block", "Go to the start of the conversation"),
    ("transcript.bottom", "G,end", "bottom", "Last block", "Go to the end and follow it"),
    ("code.top", "g,home", "top", "Top", "Go to the first line"),
    ("code.bottom", "G,end", "bottom", "Bottom", "Go to the last line"),
    ("lines.right", "right", "shift(1)", "To the right", "Half a pane to the right; › marks lines that go on"),
    ("lines.left", "left", "shift(-1)", "To the left", "Half a pane to the left"),
    ("lines.start", "home", "line_start", "Line starts", "Where the lines begin"),
    ("lines.end", "end", "line_end", "Line ends", "Where the longest line on screen ends"),
    ("review.next", "j", "move_hunk(1)", "Next hunk", "Go to the next hunk, in the next file after the last"),
    ("review.previous", "k", "move_hunk(-1)", "Previous hunk", "Go to the hunk before, in the file before if need be"),
    ("review.next_file", "]", "move_file(1)", "Next file", "Go to the next changed file"),
    ("review.previous_file", "[", "move_file(-1)", "Previous file", "Go to the changed file before"),
    ("review.accept", "a", "resolve_hunk('accept')", "Accept", "Write this hunk to your file"),
    ("review.reject", "r", "resolve_hunk('reject')", "Reject", "Drop this hunk; your file stays as it is"),
    ("review.accept_file", "A", "resolve_file('accept')", "Accept file", "Write all hunks of this file"),
    ("review.reject_file", "R", "resolve_file('reject')", "Reject file", "Drop all hunks of this file"),
    ("review.reason", "w", "reject_with_reason", "Reject, why…", "Reject this hunk and tell the model why"),
    ("review.undo", "u", "undo", "Undo", "Take back the last verdict"),
    ("review.divide", "s", "split_hunk", "Split hunk", "Split this hunk, before the marked line if there is one"),
    (
        "review.mark_down",
        "J,shift+down",
        "mark_line(1)",
        "Mark below",
        "Mark the line at which the hunk is to be split",
    ),
    ("review.mark_up", "K,shift+up", "mark_line(-1)", "Mark above", "Mark the line above"),
    ("review.edit", "e", "edit_hunk", "Edit hunk", "Edit what this hunk puts into the file"),
    ("review.comment", "c", "comment", "Comment", "Say something about this hunk; no words remove it"),
    ("review.send", "S", "send_comments", "Send comments", "Look at your comments and send them as one message"),
    ("review.origin", "b", "resolve_origin", "By origin…", "Judge all of one command, turn or todo at once"),
    ("review.settle", "t", "resolve_conflict", "Three ways", "Settle a conflict: base, your file and the agent's"),
    ("review.todo", "T", "show_todo", "Todo", "Show the todo that this was changed for"),
    ("review.list", "l", "toggle_list", "List", "All that waits, as a list; a and r judge its rows"),
    ("review.filter", "/", "filter", "Filter", "Find files in the list by words"),
    ("review.split", "v", "toggle_columns", "Columns", "One column or two; two take the whole window if need be"),
    ("review.open", "o", "open_file", "Open", "Show the file at this hunk"),
    ("changes.open", "enter", "open_row", "Open", "Show the hunks of the file, or open the directory"),
    ("changes.fold", "space,left,right", "fold", "Fold", "Open or close the directory"),
    ("changes.down", "down", "move(1)", "Below", "The row below"),
    ("changes.up", "up", "move(-1)", "Above", "The row above"),
    ("editor.save", "ctrl+s", "save", "Save", "Make this the pending state of the hunk"),
    ("editor.cancel", "escape", "cancel", "Cancel", "Leave the hunk as it was"),
    ("reason.submit", "enter", "submit", "Done", "Reject with the reason, keep the comment, go to the match"),
    ("reason.cancel", "escape", "cancel", "Cancel", "Back to the hunk as it was"),
    ("conflict.mine", "m", "take('mine')", "Keep mine", "Keep what your file has here"),
    ("conflict.theirs", "t", "take('theirs')", "Take theirs", "Take what the agent has here"),
    ("conflict.both", "b", "take('both')", "Both", "Yours, then the agent's"),
    ("conflict.edit", "e", "edit", "Edit", "Write what is to stand here"),
    ("conflict.next", "j,tab", "move(1)", "Next", "The next place"),
    ("conflict.previous", "k,shift+tab", "move(-1)", "Previous", "The place before"),
    ("conflict.apply", "ctrl+s", "apply", "Apply", "Let the result wait for a verdict"),
    ("conflict.leave", "escape,q", "leave", "Back", "Leave the conflict as it is"),
    ("comments.send", "s,ctrl+s", "send", "Send", "Send all of them as one message"),
    ("comments.edit", "e,enter", "edit", "Edit", "Change what the marked comment says; no words remove it"),
    ("comments.drop", "d,delete", "drop", "Remove", "Remove the marked comment"),
    ("comments.down", "j,down", "move(1)", "Below", "The comment below"),
    ("comments.up", "k,up", "move(-1)", "Above", "The comment above"),
    ("comments.leave", "escape,q", "leave", "Back", "Send nothing"),
    ("picture.next", "right,n", "turn(1)", "Next", "The next of the pictures"),
    ("picture.previous", "left,p", "turn(-1)", "Previous", "The picture before"),
    ("picture.leave", "escape,q,enter", "leave", "Back", "Close the picture"),
    ("rewind.both", "b", "choose('both')", "Both", "Take files and conversation back"),
    ("rewind.files", "f", "choose('files')", "Files", "Take the files back; the conversation stays"),
    ("rewind.conversation", "c", "choose('conversation')", "Conversation", "Take the conversation back; files stay"),
    ("rewind.down", "j,down", "scroll(1)", "Below", "Read on"),
    ("rewind.up", "k,up", "scroll(-1)", "Above", "Read back"),
    ("rewind.leave", "escape,q", "leave", "Back", "Take nothing back"),
    ("files.hide", "left", "fold", "Fold", "Fold the directory, or go to the one above"),
    ("files.open", "right", "unfold", "Unfold", "Unfold the directory, or go into it"),
    ("files.find", "/", "find", "Find", "Find a file by its name, or a part of its path"),
    ("find.down", "down", "move(1)", "Below", "The file below"),
    ("find.up", "up", "move(-1)", "Above", "The file above"),
    ("find.take", "enter", "submit", "Open", "Show the file, in the tree, too"),
    ("find.leave", "escape", "leave", "Tree", "Back to the tree"),
    ("plan.cycle", "space", "cycle", "Next status", "Pending, in progress, completed, cancelled in turn"),
    ("plan.build", "b", "build", "Build", "Work through this plan in Agent mode, where it stands"),
    ("plan.build_one", "B", "build('one')", "Build todo", "Do the marked todo alone"),
    ("plan.build_fresh", "F", "build('fresh')", "Build afresh", "Build, and send nothing of the conversation"),
    ("plan.build_parallel", "P", "build('parallel')", "In parallel", "Build, with up to four subagents at once"),
    ("plan.view", "v", "toggle_view", "Graph", "The todos as a list, or a graph of who waits for whom"),
    ("plan.add", "n", "ask('add')", "New todo", "Add a todo below the marked one"),
    ("plan.edit", "e", "ask('edit')", "Edit todo", "Change what the marked todo says"),
    ("plan.needs", "w", "ask('needs')", "Waits for…", "Change which todos the marked one waits for"),
    ("plan.verify", "p", "ask('verify')", "Proof…", "The command that has to pass before it is completed"),
    ("plan.remove", "d,delete", "remove", "Remove", "Take the marked todo out of the plan"),
    ("plan.lower", "J,shift+down", "move(1)", "Lower", "Move the marked todo down"),
    ("plan.higher", "K,shift+up", "move(-1)", "Higher", "Move the marked todo up"),
    ("plan.filter", "/", "ask('filter')", "Filter", "Find todos by words or by state"),
    ("plan.unfilter", "escape", "unfilter", "Show all", "Drop the filter, so that all todos are seen again"),
    ("plan.hunks", "o", "show_hunks", "Hunks", "Show what was changed for the marked todo"),
    ("plan.body", "E", "edit_here", "Edit text", "Edit the text of the plan in the place of the panel"),
    ("plan.text", "t", "edit_text", "Text in $EDITOR", "Edit the text of the plan in your $EDITOR"),
    ("plan.send", "S", "send_comments", "Send comments", "Look at your comments and send them as one message"),
    ("todos.down", "j,down", "move(1)", "Below", "The todo below"),
    ("todos.up", "k,up", "move(-1)", "Above", "The todo above"),
    ("todos.page_down", "pagedown", "page(1)", "Page down", "A screenful down"),
    ("todos.page_up", "pageup", "page(-1)", "Page up", "A screenful up"),
    ("todos.top", "g,home", "top", "First todo", "Go to the first todo"),
    ("todos.bottom", "G,end", "bottom", "Last todo", "Go to the last todo"),
    ("todos.read", "enter", "read_text", "Text", "Go to the text of the plan, where lines can be commented"),
    ("plantext.down", "j,down", "move(1)", "Below", "The line below"),
    ("plantext.up", "k,up", "move(-1)", "Above", "The line above"),
    ("plantext.mark_down", "J,shift+down", "extend(1)", "Mark below", "Mark the line below, too"),
    ("plantext.mark_up", "K,shift+up", "extend(-1)", "Mark above", "Mark the line above, too"),
    ("plantext.page_down", "pagedown,space", "page(1)", "Page down", "A screenful down"),
    ("plantext.page_up", "pageup", "page(-1)", "Page up", "A screenful up"),
    ("plantext.top", "g,home", "top", "First line", "Go to the first line"),
    ("plantext.bottom", "G,end", "bottom", "Last line", "Go to the last line"),
    ("plantext.comment", "c", "comment", "Comment", "Comment the marked lines, or change what you said"),
    ("plantext.uncomment", "d,delete", "uncomment", "Remove", "Remove the comment that is marked"),
    ("plantext.todos", "enter", "show_todos", "Todos", "Go back to the todos"),
    ("planeditor.save", "ctrl+s", "save", "Save", "Make this the text of the plan"),
    ("planeditor.cancel", "escape", "cancel", "Leave", "Leave the text as it was; asks if you typed something"),
    ("debug.filter", "/", "filter", "Filter", "Find lines of the log by words"),
    ("debug.run", "n", "next_run", "Next run", "The log of the next run"),
    ("debug.compare", "v", "compare", "Compare", "The run beside the one before it, or its log alone"),
    ("debug.hypothesis", "h", "next_hypothesis", "Hypothesis", "Only the lines of the next hypothesis, in turn"),
    ("debug.proceed", "p", "answer('proceed')", "Proceed", "Answer the card: go on with what was logged"),
    ("debug.fixed", "f", "answer('fixed')", "Mark as fixed", "Answer the card: the fault is gone"),
    ("debug.broken", "b", "answer('broken')", "Still broken", "Answer the card: take the fix back"),
    ("picker.leave", "escape", "leave", "Back", "Choose nothing"),
    ("picker.down", "down", "move(1)", "Down", "The choice below"),
    ("picker.up", "up", "move(-1)", "Up", "The choice above"),
    ("sessions.cancel", "escape", "leave", "Back", "Stay in this session"),
    ("sessions.above", "up", "move(-1)", "Above", "The session above"),
    ("sessions.below", "down", "move(1)", "Below", "The session below"),
    ("welcome.back", "escape", "back", "Back", "Back to the list"),
    ("welcome.leave", "ctrl+q", "leave", "Quit", "Leave agent-tui"),
    ("address.next", "down", "move(1)", "Below", "The field below"),
    ("address.previous", "up", "move(-1)", "Above", "The field above"),
    ("address.leave", "escape", "leave", "Back", "Name no address"),
    ("key.leave", "escape", "leave", "Back", "Paste no key"),
    ("confirm.yes", "y", "answer(True)", "Yes", "Do it"),
    ("confirm.no", "n,escape,q", "answer(False)", "No", "Do not"),
    ("consent.down", "j,down,pagedown", "scroll(1)", "Below", "Read on in what is asked about"),
    ("consent.up", "k,up,pageup", "scroll(-1)", "Above", "Read back"),
    ("consent.right", "right", "shift(1)", "To the right", "Half a pane to the right; › marks lines that go on"),
    ("consent.left", "left", "shift(-1)", "To the left", "Half a pane to the left"),
    ("page.leave", "escape,q,enter,f1", "leave", "Back", "Close the page"),
    ("approval.allow", "y", "answer('allow_once')", "Allow once", "Run exactly this, this time"),
    ("approval.session", "s", "answer('allow_session')", "Allow in session", "Reach this host until the session ends"),
    ("approval.always", "a", "answer('allow_always')", "Allow always", "Keep a yes to exactly this"),
    ("approval.pattern", "p", "type_pattern", "Allow a pattern", "Type what is to be allowed from now on"),
    ("approval.never", "N", "answer('reject_always')", "Reject always", "Keep a no to exactly this"),
    ("approval.down", "j,down", "page(1)", "Scroll down", "The rest of a long command"),
    ("approval.up", "k,up", "page(-1)", "Scroll up", "The beginning of a long command"),
    ("approval.back", "escape", "cancel_pattern", "Back", "From a pattern back to the choices"),
    ("approval.reject", "n", "answer('reject_once')", "Reject", "Do not run it; the model is told"),
    ("question.accept", "enter", "accept_option", "Answer", "Take the marked option; 1 to 9 take one by number"),
    ("question.down", "down", "move(1)", "Down", "The option below; after the last, your own words"),
    ("question.up", "up", "move(-1)", "Up", "The option above"),
    ("question.tick", "space", "tick", "Mark", "Choose it among others, where several can hold"),
    ("question.next", "tab,right", "switch_question(1)", "Next question", "The tab to the right"),
    ("question.previous", "shift+tab,left", "switch_question(-1)", "Question before", "The tab to the left"),
    ("question.page_down", "pagedown", "page(1)", "Scroll down", "The rest of a long question"),
    ("question.page_up", "pageup", "page(-1)", "Scroll up", "The beginning of a long question"),
    ("question.leave", "escape", "postpone_question", "Later", "To the prompt; the question stays open"),
    ("question.dismiss", "ctrl+d,delete", "dismiss_question", "Dismiss", "Leave it to the agent: go on without me"),
)
KEYS: Final = tuple(Key(*row) for row in _ROWS)


# Letters that only move a cursor, so that they act at once and can be told from a sentence by what follows.
CURSOR_KEYS: Final = frozenset(
    f"{scope}.{name}"
    for scope, names in {
        "transcript": "previous next top bottom",
        "code": "top bottom",
        "review": "next previous next_file previous_file mark_down mark_up",
        "conflict": "next previous",
        "comments": "down up",
        "rewind": "down up",
        "consent": "down up",
        "todos": "down up top bottom",
        "plantext": "down up mark_down mark_up top bottom",
        "approval": "down up",
    }.items()
    for name in names.split()
)


SCOPE_TITLES: Final = {
    "app": "Everywhere",
    "prompt": "Prompt",
    "transcript": "Conversation",
    "code": "Text pane",
    "lines": "Long lines of a file or a change",
    "review": "Review",
    "changes": "List of changes",
    "editor": "Editor of a hunk",
    "reason": "Reason or comment",
    "conflict": "Conflict",
    "comments": "Comments",
    "rewind": "Going back",
    "picture": "Picture",
    "files": "Files",
    "find": "Finding a file",
    "plan": "Plan",
    "todos": "Todos of a plan",
    "plantext": "Text of a plan",
    "planeditor": "Editor of a plan",
    "debug": "Debug board",
    "approval": "Approval",
    "question": "Question",
    "picker": "List",
    "sessions": "Sessions",
    "welcome": "Welcome",
    "address": "Address of a model server",
    "key": "Key of a model API",
    "confirm": "Yes or no",
    "consent": "Yes or no to a change",
    "page": "Page",
}
_KEY_SIGNS: Final = {"full_stop": ".", "escape": "esc", "up": "↑", "down": "↓", "left": "←", "right": "→"}


def format_keys(keys: str) -> str:
    """Format comma-separated keys for people, with spaces between them."""
    return re.sub(r"[a-z_]+", lambda name: _KEY_SIGNS.get(name.group(), name.group()), keys).replace(",", " ")


def format_first_key(name: str, keymap: Mapping[str, str]) -> str:
    """Format the first key of a binding, by id, for people."""
    keys = keymap.get(name) or next(each.keys for each in KEYS if each.id == name)
    return format_keys(keys.partition(",")[0])


def get_keymap(app: object) -> Mapping[str, str]:
    """Return the keys that the user of an app has changed, by id."""
    return cast("Mapping[str, str]", getattr(app, "keymap", {}))


def insert_keys(text: str, keymap: Mapping[str, str]) -> str:
    """Replace the id of a key in braces (`{review.accept} accepts`) by the first key that does it."""
    return re.sub(r"\{(\w+\.\w+)\}", lambda found: format_first_key(found[1], keymap), text)


def get_bindings(*scopes: str, priority: bool = False) -> list[BindingType]:
    """Return the bindings of scopes, for a class's `BINDINGS`. `priority`: before the widget's own keys."""
    return [
        Binding(each.keys, each.action, each.label, False, None, priority or each.has_priority, each.tooltip, each.id)
        for each in KEYS
        if each.scope in scopes
    ]


def check_keymap(keymap: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid part of a user's keymap, and a sentence for each id that does not exist."""
    known = {each.id for each in KEYS}
    wrong = [f"keymap: there is no key {name!r}; docs/keys.md lists the ids" for name in keymap if name not in known]
    return {name: keys for name, keys in keymap.items() if name in known and keys.strip()}, wrong


def group_by_scope() -> dict[str, list[Key]]:
    table: dict[str, list[Key]] = {}
    for each in KEYS:
        table.setdefault(each.scope, []).append(each)
    return table
