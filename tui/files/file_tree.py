"""The file tree: directories are read when opened, and pending changes are marked as they arrive.

Names are foreign text. The cost follows the open part of the tree, and directories are filled in slices, so that no key
waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rich.style import Style as RichStyle
from rich.text import Text
from textual import on
from textual.message import Message
from textual.widgets import Tree as TreeWidget
from textual.widgets.tree import TreeNode
from textual.worker import Worker, WorkerState

from core.protocol.paths import list_parents
from core.protocol.queries import TreeAnswer, TreeEntry
from tui.files.messages import FileSelected
from tui.keymap import get_bindings
from tui.text import fit_line, format_path
from tui.widgets.text_rows import Piece, measure_text
from tui.workers import start_worker

SLICE_SIZE: Final = 500
MAX_DEPTH: Final = 100  # maximum depth of open directories, because Textual's tree is recursive
MAX_ENTRIES: Final = 5_000  # entries of one directory; nobody reads on, and `find` knows the rest
MARKS: Final = {
    "create": ("+", "$text-success"),
    "edit": ("●", "$text-warning"),
    "delete": ("-", "$text-error"),
    "rename": ("→", "$text-primary"),
    "mode": ("●", "$text-primary"),
}
CHANGE_BELOW: Final = ("·", "$text-warning")


class DirectoryRefused(Exception):
    """A directory can't be read; the words say why."""


@dataclass(slots=True)
class TreeItem:
    """The data of a node; `is_read`: the directory's entries are loaded or loading."""

    path: str
    entry: TreeEntry
    name: str = field(default="")
    is_read: bool = False

    def __post_init__(self) -> None:
        self.name = self.name or format_path(self.entry.name) or "‹unnamed›"
        if self.entry.kind == "directory" and not self.can_open:
            self.name = f"{self.name}/ … use find for deeper files"

    @property
    def can_open(self) -> bool:
        return self.entry.kind == "directory" and self.path.count("/") < MAX_DEPTH


Node = TreeNode[TreeItem]


class FileTree(TreeWidget[TreeItem]):
    """`load(path)` returns the entries of a directory, "" being the workspace, or raises `DirectoryRefused`."""

    DEFAULT_CSS = """
    FileTree { height: 1fr; background: $background; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
    FileTree { scrollbar-color: $foreground 20%; scrollbar-background: $background; }
    FileTree > .tree--guides { color: $foreground 15%; }
    FileTree > .tree--guides-hover, FileTree > .tree--guides-selected { color: $foreground 30%; text-style: none; }
    FileTree:focus > .tree--guides-hover, FileTree:focus > .tree--guides-selected { color: $foreground 30%; }
    FileTree > .tree--highlight { text-style: none; }
    FileTree > .tree--cursor { background: $foreground 10%; color: $foreground; text-style: none; }
    FileTree:focus > .tree--cursor { background: $marked-row; color: $foreground; text-style: bold; }
    """

    BINDINGS = get_bindings("files")
    ICON_NODE = "▸ "
    ICON_NODE_EXPANDED = "▾ "

    class FindRequested(Message):
        """Requests the search for a file by name."""

    def __init__(self, load: Callable[[str], Awaitable[TreeAnswer]], *, id: str | None = None) -> None:  # noqa: A002
        root = TreeItem("", TreeEntry(name="files", kind="directory"))
        super().__init__(Text("files"), root, id=id)
        self.show_root = False
        self.guide_depth = 2
        self._load = load
        self._marks: dict[str, str] = {}
        self._diagnostics: dict[str, Piece] = {}
        self._changed_directories: set[str] = set()

    def on_mount(self) -> None:
        self._start_reading(self.root)

    # Input from the screen

    def set_marks(self, marks: Mapping[str, str]) -> None:
        """Set the pending operation by path; directories that gain or lose an entry by it are read again."""
        before, self._marks = self._marks, dict(marks)
        self._changed_directories = {above for path in marks for above in list_parents(path)}
        changed_paths = {path for path in before.keys() | marks.keys() if before.get(path) != marks.get(path)}
        self.refresh_paths(changed_paths)
        self._redraw()

    def set_diagnostics(self, diagnostics: Mapping[str, Piece]) -> None:
        """Set the diagnostics of pending text by path: a short text and its style."""
        if diagnostics != self._diagnostics:
            self._diagnostics = dict(diagnostics)
            self._redraw()

    def refresh_all(self) -> None:
        """Read open directories again now, and others when they are opened, because any of them may have changed."""
        waiting = [self.root] if self.is_mounted else []
        while waiting:
            node = waiting.pop()
            if node.is_root or node.is_expanded:
                waiting += node.children
                self._start_reading(node)
            elif node.data is not None:
                node.data.is_read = False

    def refresh_paths(self, paths: Iterable[str]) -> None:
        if not self.is_mounted:
            return
        directories = {path.rpartition("/")[0] for path in paths}
        for directory in sorted(directories | {""} if directories else ()):
            node = self._find_node(directory)
            if node is not None and node.data is not None and node.data.is_read:
                self._start_reading(node)

    # Reading

    def _find_node(self, path: str) -> Node | None:
        """Return the node of a directory, or of its nearest displayed ancestor."""
        node = self.root
        for part in path.split("/") if path else ():
            if (child := _find_child(node, part)) is None:
                return node
            node = child
        return node

    def _start_reading(self, node: Node) -> None:
        if node.data is not None:
            node.data.is_read = True
            name = f"tree:{node.data.path}"
            start_worker(self, self._read_directory, node, group=name, exclusive=True, exit_on_error=False)

    async def _read_directory(self, node: Node) -> None:
        tree_item = node.data
        assert tree_item is not None
        try:
            tree = await self._load(tree_item.path)
        except DirectoryRefused as refused:
            tree_item.is_read = False
            tree = TreeAnswer(path=tree_item.path, entries=(TreeEntry(name=str(refused), kind="other", ignored=True),))
        entries = _add_deleted(tree_item.path, tree.entries[:MAX_ENTRIES], self._marks)
        left_out = tree.truncated + max(len(tree.entries) - MAX_ENTRIES, 0)
        await self._merge_entries(node, tree_item.path, entries)
        if left_out:
            rest = TreeEntry(name=f"… {left_out:,} more", kind="other", ignored=True)
            node.add_leaf(Text(rest.name), TreeItem("", rest, rest.name))
        self._redraw()

    async def _merge_entries(self, node: Node, path: str, entries: list[TreeEntry]) -> None:
        """Reconcile the children of a node with the entries; open directories stay open."""
        entry_keys = {(entry.name, entry.kind) for entry in entries}
        known_items: dict[tuple[str, str], TreeItem] = {}
        for child in list(node.children):
            if child.data and (key := (child.data.entry.name, child.data.entry.kind)) in entry_keys:
                known_items[key] = child.data
            else:
                child.remove()
        for index, entry in enumerate(entries):
            if (old := known_items.get((entry.name, entry.kind))) is not None:
                old.entry = entry
                continue
            tree_item = TreeItem(f"{path}/{entry.name}" if path else entry.name, entry)
            before = index if index < len(node.children) else None
            node.add(Text(tree_item.name), tree_item, before=before, allow_expand=tree_item.can_open)
            if index % SLICE_SIZE == SLICE_SIZE - 1:
                await asyncio.sleep(0)  # keys and frames come between two slices

    def _redraw(self) -> None:
        self._updates += 1
        self._line_cache.clear()
        self.refresh()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker.name.startswith("tree:") and event.state is WorkerState.ERROR:
            node = self._find_node(event.worker.name.removeprefix("tree:"))
            if node is not None and node.data is not None:
                node.data.is_read = False
            self.notify(fit_line(f"Can't read a directory: {event.worker.error}"), severity="warning", markup=False)

    # Looks

    def process_label(self, label: str | Text) -> Text:
        return label if isinstance(label, Text) else Text(label)

    def get_label_width(self, node: Node) -> int:
        return measure_text(node.data.name) + 9 if node.data is not None else 0

    def render_label(self, node: Node, base_style: RichStyle, style: RichStyle) -> Text:
        tree_item = node.data
        if tree_item is None:
            return Text("")
        operation = self._marks.get(tree_item.path, "") or (
            tree_item.entry.mark if tree_item.entry.kind != "directory" else ""
        )
        icon = (self.ICON_NODE_EXPANDED if node.is_expanded else self.ICON_NODE) if node.allow_expand else "  "
        plain = base_style + style
        name_style = plain + self._resolve_color("$foreground 40%") if tree_item.entry.ignored else plain
        if operation in MARKS:
            name_style = plain + self._resolve_color(MARKS[operation][1])
        if operation == "delete":
            name_style += RichStyle(strike=True)
        toggle = RichStyle(meta={"toggle": node.allow_expand})
        text = Text().append(icon, plain + self._resolve_color("$foreground 50%") + toggle)
        text.append(tree_item.name, name_style)
        if node.allow_expand:
            text.append("/", plain + self._resolve_color("$foreground 35%"))
        elif tree_item.entry.kind == "symlink":
            text.append(" ↗", plain + self._resolve_color("$foreground 40%"))
        mark = MARKS.get(operation) or (CHANGE_BELOW if tree_item.path in self._changed_directories else None)
        if mark is not None:
            text.append(f" {mark[0]}", plain + self._resolve_color(mark[1]))
        if (diagnostic := self._diagnostics.get(tree_item.path)) is not None:
            text.append(f" {diagnostic[0]}", plain + self._resolve_color(diagnostic[1]))
        return text

    def _resolve_color(self, style: str) -> RichStyle:
        """Return the foreground of a style over this widget's background."""
        return RichStyle(color=(self.visual_style + self.app.stylesheet.parse_style(style)).rich_style.color)

    # Keys and choices

    @on(TreeWidget.NodeExpanded)
    def _on_directory_opened(self, event: TreeWidget.NodeExpanded[TreeItem]) -> None:
        event.stop()
        if event.node.data is not None and not event.node.data.is_read:
            self._start_reading(event.node)

    @on(TreeWidget.NodeSelected)
    def _on_node_chosen(self, event: TreeWidget.NodeSelected[TreeItem]) -> None:
        event.stop()
        tree_item = event.node.data
        if tree_item is not None and tree_item.path and tree_item.entry.kind in {"file", "symlink"}:
            self.post_message(FileSelected(tree_item.path))

    def reveal_path(self, path: str) -> None:
        start_worker(self, self._open_to_path, path, group="reveal", exclusive=True, exit_on_error=False)

    async def _open_to_path(self, path: str) -> None:
        node = self.root
        for part in path.split("/"):
            if not node.allow_expand:
                break
            if node.data is not None and not node.data.is_read:
                node.data.is_read = True
                await self._read_directory(node)
            node.expand()
            if (child := _find_child(node, part)) is None:
                break
            node = child
        self.call_after_refresh(self.move_cursor, node)

    def action_find(self) -> None:
        self.post_message(self.FindRequested())

    def action_unfold(self) -> None:
        node = self.cursor_node
        if node is None or not node.allow_expand:
            return
        if node.is_expanded:
            self.action_cursor_down()
        else:
            node.expand()

    def action_fold(self) -> None:
        node = self.cursor_node
        if node is not None and node.allow_expand and node.is_expanded:
            node.collapse()
        elif node is not None and node.parent is not None and node.parent is not self.root:
            self.move_cursor(node.parent)


def _find_child(node: Node, name: str) -> Node | None:
    return next((child for child in node.children if child.data and child.data.entry.name == name), None)


def _add_deleted(path: str, entries: Iterable[TreeEntry], marks: Mapping[str, str]) -> list[TreeEntry]:
    """Return the entries, with files that a pending change deletes, sorted by name."""
    all_entries = list(entries)
    names = {entry.name for entry in all_entries}
    for marked_path, operation in marks.items():
        parent, _, name = marked_path.rpartition("/")
        if operation == "delete" and parent == path and name not in names:
            later = (
                index for index, entry in enumerate(all_entries) if entry.kind != "directory" and entry.name > name
            )
            all_entries.insert(next(later, len(all_entries)), TreeEntry(name=name, kind="file", mark="delete"))
    return all_entries
