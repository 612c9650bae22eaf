"""A file to look at: line numbers, syntax colours, one line marked; or, in words, why there is nothing to see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from core.protocol.queries import FileText
from tui.highlight import Painting
from tui.keymap import bindings
from tui.text import clean, named, shortened
from tui.widgets.code_view import CodeView, cells
from tui.work import begin

EMPTY: Final = "No file is shown\n\nChoose one in the file tree, or press o at a hunk of the review."
PATIENCE: Final = 0.5
LONGEST: Final = 8_000
ABOVE: Final = 5


class FilePage(CodeView):
    """The text of one file. `marked` is the 1-indexed line that was asked for, 0 for none."""

    DEFAULT_CSS = "FilePage { scrollbar-size-horizontal: 0; }"

    BINDINGS: ClassVar[list[BindingType]] = bindings("lines")

    def __init__(self) -> None:
        super().__init__()
        self.marked = 0
        self._lines: list[str] = []
        self._message = EMPTY
        self._painting: Painting | None = None

    def show_message(self, text: str) -> None:
        """Words of ours or of a problem, instead of a text."""
        self._lines, self._message, self._painting, self.marked = [], text, None, 0
        self.virtual_size = Size(0, 0)
        self.redraw()

    def show_text(self, file: FileText, line: int, *, keep: bool = False) -> None:
        """A file's text with `line` marked and in view; `keep`: it is the same file, read anew."""
        text = shortened(file.text.replace("\r\n", "\n"), LONGEST)
        self._lines = clean(text).split("\n")
        if len(self._lines) > 1 and not self._lines[-1]:
            self._lines.pop()
        self._message = "" if file.text else "The file is empty"
        self.forget_colours()
        self._painting = Painting(self._lines, file.language, file.path)
        self.marked = min(line, len(self._lines))
        beyond = self._gutter() + max(cells(each) for each in self._lines) + 1
        self.virtual_size = Size(beyond, len(self._lines)) if file.text else Size(0, 0)
        self.redraw()
        if line > 0:
            top = self.marked - 1 - min(ABOVE, self.size.height // 3)
            self.scroll_to(x=0, y=max(top, 0), animate=False, force=True)
        elif not keep:
            self.scroll_to(0, 0, animate=False, force=True)

    def _gutter(self) -> int:
        return max(len(str(len(self._lines))), 3) + 3

    def line_room(self) -> int:
        return max(self.row_width - self._gutter(), 1)

    def row_count(self) -> int:
        return self.size.height if self._message else len(self._lines)

    def row_text(self, row: int) -> str:
        return self._lines[row] if row < len(self._lines) else ""

    def draw(self, row: int, width: int, shift: int) -> Strip:
        if self._message:
            return self.draw_message(self._message, row, width)
        is_marked = row + 1 == self.marked
        style = self.ink("on $primary 22%" if is_marked else "")
        parse = self.app.stylesheet.parse_style
        number = f"{row + 1:>{self._gutter() - 3}}  "
        bar = ("▌" if is_marked else " ", style + parse("$primary"))
        gutter = self.paint([bar, (number, style + parse("$foreground 65%" if is_marked else "$foreground 38%"))])
        code = self.code(self._lines[row], style, row=row, spans=self.spans(self._painting, row))
        room = max(width - gutter.cell_length, 0)
        return Strip.join([gutter, self.window(code, style, shift=shift, room=room)])


class Preview(Vertical):
    """`load(path)` gives the text of a file as the agent would see it, or as it still is where `is_gone(path)`."""

    DEFAULT_CSS = """
    Preview { width: 1fr; height: 1fr; }
    Preview > .preview--title { height: 1; padding: 0 1; background: $surface; }
    """

    def __init__(
        self,
        load: Callable[[str], Awaitable[FileText]],
        *,
        is_gone: Callable[[str], bool] = lambda _: False,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._load, self._is_gone = load, is_gone
        self._path, self._line = "", 0
        self._slow: Timer | None = None

    def compose(self) -> ComposeResult:
        title = Static(classes="preview--title")
        title.display = False
        yield title
        yield FilePage()

    @property
    def path(self) -> str:
        """The file that is shown or being read, "" for none."""
        return self._path

    @property
    def _page(self) -> FilePage:
        return self.query_one(FilePage)

    def on_mount(self) -> None:
        if self._path:
            self._read(keep=False)

    def show(self, path: str, line: int = 0) -> None:
        """Show a file, with line `line` (1-indexed) marked. The same file again keeps the place."""
        keep = path == self._path and not line
        self._path, self._line = path, line
        if self.is_mounted:
            self._read(keep=keep)

    def focus(self, scroll_visible: bool = True) -> Preview:
        self._page.focus(scroll_visible)
        return self

    def _read(self, *, keep: bool) -> None:
        if self._slow is None:
            self._slow = self.set_timer(PATIENCE, self._show_progress)
        read = partial(self._fetch, self._path, self._line, keep=keep)
        begin(self, read, group="preview.load", exclusive=True, exit_on_error=False)

    async def _fetch(self, path: str, line: int, *, keep: bool) -> None:
        file = await self._load(path)
        self._stop_waiting()
        if path != self._path:
            return
        self._show_title(file)
        if file.problem:
            self._page.show_message(f"No preview\n\n{clean(file.problem)}")
        else:
            self._page.show_text(file, line, keep=keep)

    def _show_title(self, file: FileText) -> None:
        title = self.query_one(".preview--title", Static)
        title.display = True
        size = f"  {file.size:,} bytes" if file.size else ""
        gone = "  - deleted, once you accept that" if self._is_gone(self._path) else ""
        parts = [(named(self._path), "bold $foreground 85%"), (gone, "$text-error"), (size, "$foreground 45%")]
        title.update(Content.assemble(*parts))

    def _show_progress(self) -> None:
        if self._slow is not None:
            self._page.show_message("Reading the file…")

    def _stop_waiting(self) -> None:
        if self._slow is not None:
            self._slow.stop()
            self._slow = None

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker.name == "preview.load" and event.state is WorkerState.ERROR:
            self._stop_waiting()
            self._page.show_message(f"The file can't be shown\n\n{clean(str(event.worker.error))}")
