"""The pane on the left: the file tree, and an input that finds a file in a project of any size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from core.protocol.queries import TreeAnswer
from tui.files.file_tree import FileTree
from tui.files.matches import format_match
from tui.files.messages import FileSelected
from tui.keymap import get_bindings
from tui.widgets.input_line import SteadyInput
from tui.widgets.key_hints import KeyHints
from tui.workers import start_worker

TREE_HINTS: Final = (("files.find", "find"), ("files.open", "open"), ("files.hide", "fold"), ("app.files", "hide"))
FIND_HINTS: Final = (("find.take", "open"), ("find.down", "next"), ("find.leave", "tree"))
NO_MATCH: Final = "No file matches."

LoadDirectory = Callable[[str], Awaitable[TreeAnswer]]
FindFiles = Callable[[str], Awaitable[Sequence[str]]]


class FindInput(SteadyInput):
    """The input for words of a file's name or path."""

    BINDINGS = get_bindings("find")

    @dataclass
    class MoveRequested(Message):
        """Requests a move of the highlight by `step`; 0 = back to the tree."""

        step: int

    def action_move(self, step: int) -> None:
        self.post_message(self.MoveRequested(step))

    def action_leave(self) -> None:
        self.post_message(self.MoveRequested(0))


class FilePane(Vertical):
    """`load(path)` returns the entries of a directory, `find(words)` the best matching paths."""

    DEFAULT_CSS = """
    FilePane > OptionList { height: 1fr; display: none; border: none; padding: 0; background: $background; }
    FilePane > OptionList { background-tint: transparent; text-wrap: nowrap; text-overflow: ellipsis; }
    FilePane > OptionList > .option-list--option-highlighted { background: $marked-row; text-style: bold; }
    FilePane > FindInput, FilePane > FindInput:focus { height: 1; display: none; border: none; padding: 0 1; }
    FilePane > FindInput { background: $surface; }
    FilePane.-finding > FindInput, FilePane.-found > OptionList { display: block; }
    FilePane.-found > FileTree { display: none; }
    FilePane > .files--hint { height: 1; }
    """

    def __init__(self, load: LoadDirectory, find: FindFiles, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._load, self._find = load, find
        self._paths: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        yield FileTree(self._load)
        option_list = OptionList(compact=True)
        option_list.can_focus = False
        yield option_list
        yield FindInput(compact=True, select_on_focus=False, placeholder="name or path")
        yield KeyHints(classes="files--hint")

    def on_mount(self) -> None:
        self._render_hint()

    def focus(self, scroll_visible: bool = True) -> FilePane:
        """Focus the input while it is open, else the tree."""
        target = self.query_one(FindInput) if self.has_class("-finding") else self.query_one(FileTree)
        target.focus(scroll_visible)
        return self

    def _render_hint(self) -> None:
        hints = FIND_HINTS if self.has_class("-finding") else TREE_HINTS
        self.query_one(KeyHints).show(hints)

    @on(FileTree.FindRequested)
    def _on_find_requested(self, event: FileTree.FindRequested) -> None:
        event.stop()
        self._show_input(True)

    def _show_input(self, is_finding: bool) -> None:
        self.query_one(FindInput).value = ""
        self._show_matches(())
        self.set_class(is_finding, "-finding")
        self.remove_class("-found")
        self.focus()
        self._render_hint()

    @on(Input.Changed)
    def _on_words_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.set_class(bool(event.value.strip()), "-found")
        start_worker(self, self._find_matches, event.value.strip(), group="find", exclusive=True)

    async def _find_matches(self, words: str) -> None:
        self._show_matches(tuple(await self._find(words)) if words else ())

    def _show_matches(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        option_list = self.query_one(OptionList)
        width, words = max(option_list.scrollable_content_region.width, 20), self.query_one(FindInput).value.strip()
        option_list.set_options(Option(format_match(path, paths, words, width)) for path in paths)
        if paths:
            option_list.highlighted = 0
        else:
            option_list.add_option(Option(Content.styled(NO_MATCH, "$foreground 50%"), disabled=True))

    @on(FindInput.MoveRequested)
    def _on_move_requested(self, event: FindInput.MoveRequested) -> None:
        event.stop()
        option_list = self.query_one(OptionList)
        if not event.step:
            self._show_input(False)
        elif event.step > 0:
            option_list.action_cursor_down()
        else:
            option_list.action_cursor_up()

    @on(Input.Submitted)
    def _on_words_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._open_match(self.query_one(OptionList).highlighted)

    @on(OptionList.OptionSelected)
    def _on_match_clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._open_match(event.option_index)

    def _open_match(self, index: int | None) -> None:
        if index is not None and index < len(self._paths):
            path = self._paths[index]
            self._show_input(False)
            self.query_one(FileTree).reveal_path(path)
            self.post_message(FileSelected(path))
