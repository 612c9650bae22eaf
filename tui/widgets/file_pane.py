"""The pane on the left: the tree of files, and a line that finds one of them in a project of any size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.queries import Tree
from tui.keymap import bindings
from tui.text import named
from tui.widgets.side import hint
from tui.widgets.tree import FileTree
from tui.work import begin

TREE_HINT: Final = (("files.find", "find"), ("files.open", "open"), ("files.hide", "fold"), ("app.files", "hide"))
FIND_HINT: Final = (("find.take", "open"), ("find.down", "next"), ("find.leave", "tree"))
NOTHING: Final = "No file is called so."

Load = Callable[[str], Awaitable[Tree]]
Find = Callable[[str], Awaitable[Sequence[str]]]


class FindLine(Input):
    """What a file is called, more or less."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("find")

    @dataclass
    class Key(Message):
        """`step` up or down in what was found; 0 = back to the tree."""

        step: int

    def action_move(self, step: int) -> None:
        """Another one of those that were found."""
        self.post_message(self.Key(step))

    def action_leave(self) -> None:
        """The tree again."""
        self.post_message(self.Key(0))


class FilePane(Vertical):
    """`load(path)` gives the entries of a directory, `find(words)` the paths that fit best."""

    DEFAULT_CSS = """
    FilePane > OptionList { height: 1fr; display: none; border: none; padding: 0; background: $background; }
    FilePane > OptionList { background-tint: transparent; text-wrap: nowrap; text-overflow: ellipsis; }
    FilePane > OptionList > .option-list--option-highlighted { background: $primary 40%; text-style: bold; }
    FilePane > FindLine, FilePane > FindLine:focus { height: 1; display: none; border: none; padding: 0 1; }
    FilePane > FindLine { background: $surface; }
    FilePane.-finding > FindLine, FilePane.-found > OptionList { display: block; }
    FilePane.-found > FileTree { display: none; }
    FilePane > .files--hint { height: 1; }
    """

    def __init__(self, load: Load, find: Find, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._load, self._find = load, find
        self._paths: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        yield FileTree(self._load)
        found = OptionList(compact=True)
        found.can_focus = False
        yield found
        yield FindLine(compact=True, select_on_focus=False, placeholder="name or path")
        yield Static(classes="files--hint")

    def on_mount(self) -> None:
        self.query_one(FindLine).cursor_blink = False
        self._draw_hint()

    def focus(self, scroll_visible: bool = True) -> FilePane:
        """Where the keys go: to the line while something is looked for, else to the tree."""
        target = self.query_one(FindLine) if self.has_class("-finding") else self.query_one(FileTree)
        target.focus(scroll_visible)
        return self

    def _draw_hint(self) -> None:
        keymap: Mapping[str, str] = getattr(self.app, "keymap", {})
        named = FIND_HINT if self.has_class("-finding") else TREE_HINT
        self.query_one(".files--hint", Static).update(hint(named, keymap))

    @on(FileTree.Seeks)
    def _seek(self, event: FileTree.Seeks) -> None:
        event.stop()
        self._finding(True)

    def _finding(self, is_finding: bool) -> None:
        self.query_one(FindLine).value = ""
        self._offer(())
        self.set_class(is_finding, "-finding")
        self.remove_class("-found")
        self.focus()
        self._draw_hint()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.set_class(bool(event.value.strip()), "-found")
        begin(self, self._look_for, event.value.strip(), group="find", exclusive=True)

    async def _look_for(self, words: str) -> None:
        self._offer(tuple(await self._find(words)) if words else ())

    def _offer(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        found = self.query_one(OptionList)
        found.set_options(Option(_row(path)) for path in paths)
        if paths:
            found.highlighted = 0
        else:
            found.add_option(Option(Content.styled(NOTHING, "$foreground 50%"), disabled=True))

    @on(FindLine.Key)
    def _key(self, event: FindLine.Key) -> None:
        event.stop()
        found = self.query_one(OptionList)
        if not event.step:
            self._finding(False)
        elif event.step > 0:
            found.action_cursor_down()
        else:
            found.action_cursor_up()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        self._take(self.query_one(OptionList).highlighted)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take(event.option_index)

    def _take(self, at: int | None) -> None:
        """Show a file that was found, and where it is in the tree."""
        if at is not None and at < len(self._paths):
            path = self._paths[at]
            self._finding(False)
            self.query_one(FileTree).reveal(path)
            self.post_message(FileTree.Selected(path))


def _row(path: str) -> Content:
    """The name of a file, then where it is."""
    directory, _, name = path.rpartition("/")
    return Content.assemble(f" {named(name)}", (f"  {named(directory)}", "$foreground 50%"))
