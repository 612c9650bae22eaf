"""The controller of what is copied: what is selected, what is at the cursor, the last answer, a hunk, all changes."""

from __future__ import annotations

import re
from typing import Final

from textual.widget import Widget

from core.protocol import queries
from core.protocol.documents import CodeBlockDocument
from core.protocol.review import ChangeDiff
from core.text.counting import count
from tui.block import TranscriptBlock
from tui.chat.block_rows import copy_text as format_block
from tui.debug.board import DebugBoard
from tui.files.file_tree import FileTree
from tui.files.file_view import FileView
from tui.plan.text_view import PlanText
from tui.plan.todo_list import TodoList
from tui.review.pane import ReviewPane
from tui.screens.controller import Controller, in_worker
from tui.terminal.copying import copy_text
from tui.terminal.driver import TerminalDriver

CODE_BLOCK: Final = re.compile(r"^(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<code>.*?)^(?P=fence)[`~]*[ \t]*$", re.M | re.S)
_ANSWER_KINDS: Final = frozenset({"text", "code_block"})
USAGE: Final = "/copy, /copy code [NUMBER], /copy hunk, /copy patch, /copy runs"
COMPARE_FIRST: Final = "No runs are compared: on the debug board v compares one with the run before it."


class CopyController(Controller):
    """Copies, and says what did it."""

    @in_worker("copying")
    async def copy(self, text: str) -> None:
        """Copy a text; what has taken it is told."""
        if not text:
            self.context.notify_user("There is nothing to copy here.")
            return
        driver = self.context.screen.app._driver
        report = await copy_text(text, driver.write_aside if isinstance(driver, TerminalDriver) else None)
        size = count("line", text.count("\n") + 1) if "\n" in text else count("character", len(text))
        if report.taken_by:
            self.context.notify_user(f"Copied {size}: {', '.join(report.taken_by)}.")
        else:
            self.context.notify_user(f"{size} could not be copied.", report.hint, is_error=True)

    def action_copy(self, argument: str = "") -> None:
        """Copy the last answer, or what the argument names."""
        what, _, number = argument.strip().partition(" ")
        match what:
            case "":
                self._copy(self._find_answer(), "There is no answer yet.")
            case "code":
                self._copy_code(number)
            case "hunk":
                self._copy_hunk()
            case "patch":
                self._copy_patch(queries.PatchQuery())
            case "runs":
                board = next(iter(self.context.screen.query(DebugBoard)), None)
                self._copy(board.format_comparison() if board else "", COMPARE_FIRST)
            case _:
                self.context.notify_user(f"There is no {argument!r} to copy.", USAGE, is_error=True)

    def action_copy_here(self) -> None:
        """Copy what is selected, else what the cursor is on."""
        screen = self.context.screen
        selected = screen.app.screen.get_selected_text()
        focused = screen.app.focused
        self._copy(selected or (self._find_text(focused) if focused else ""), "There is nothing to copy here.")

    def _copy(self, text: str, problem: str) -> None:
        if text:
            self.context.screen.app.copy_to_clipboard(text)
        else:
            self.context.notify_user(problem)

    def _find_text(self, focused: Widget) -> str:
        for widget in focused.ancestors_with_self:
            match widget:
                case ReviewPane():
                    return self._find_hunk_lines()
                case FileView():
                    return "\n".join(widget.cursor.lines[line] for line in widget.cursor.marked if widget.has_text)
                case FileTree():
                    node = widget.cursor_node
                    return node.data.path if node is not None and node.data is not None else ""
                case TodoList():
                    return widget.current_todo.content if widget.current_todo is not None else ""
                case PlanText() | DebugBoard():
                    return widget.get_copied_text()
        return ""

    def _list_answer(self) -> list[TranscriptBlock]:
        """Return the blocks of the last answer: what was said last, until something else was done."""
        said: list[TranscriptBlock] = []
        for block in reversed(self.context.state.blocks):
            if block.kind in _ANSWER_KINDS:
                said.append(block)
            elif said:
                break
        return said[::-1]

    def _find_answer(self) -> str:
        return "\n\n".join(filter(None, map(_format_answer, self._list_answer())))

    def _copy_code(self, number: str) -> None:
        found = [code for block in self._list_answer() for code in _list_code(block)]
        wanted = int(number) if number.isdecimal() else 1
        if not 1 <= wanted <= len(found):
            self.context.notify_user(f"The last answer has {count('block', len(found))} of code.", USAGE)
            return
        self.context.screen.app.copy_to_clipboard(found[wanted - 1])

    def _find_shown_hunk(self) -> tuple[ChangeDiff, int] | None:
        """Return the change that the review shows, with the index of the hunk at the cursor."""
        pane = next(iter(self.context.screen.query(ReviewPane)), None)
        diff = pane.browser.get_diff() if pane is not None else None
        return (diff, pane.browser.diff_view.current) if pane is not None and diff is not None else None

    def _find_hunk_lines(self) -> str:
        shown = self._find_shown_hunk()
        return list_hunk_lines(*shown) if shown is not None else ""

    def _copy_hunk(self) -> None:
        shown = self._find_shown_hunk()
        hunks = shown[0].change.hunks if shown is not None else ()
        if shown is None or not 0 <= shown[1] < len(hunks):
            self.context.notify_user("No hunk is shown: Ctrl+R goes to the review.")
            return
        self._copy_patch(queries.PatchQuery(paths=(shown[0].change.path,), hunks=(hunks[shown[1]].id,)))

    @in_worker("copying_patch")
    async def _copy_patch(self, question: queries.PatchQuery) -> None:
        """Copy changes as a patch, as git writes it; what is not in it is named."""
        found = await self.context.query(question, queries.PatchAnswer, "There is no patch.")
        if found is None:
            return
        try:
            text = found.patch.decode()
        except UnicodeDecodeError:
            self.context.notify_user("The patch holds text that is not UTF-8.", "agent-tui diff prints it as it is.")
            return
        self._copy(text, "Nothing waits that a patch could hold.")
        if found.left_out and text:
            self.context.notify_user(f"The patch leaves out {', '.join(path for path, _ in found.left_out)}.")


def list_hunk_lines(diff: ChangeDiff, hunk: int) -> str:
    """Return the lines that a hunk puts into the file, or those that it takes out if it puts none."""
    own = [line for line in diff.lines if line.hunk == hunk]
    kind = "added" if any(line.kind == "added" for line in own) else "removed"
    return "\n".join(line.text for line in own if line.kind == kind)


def _format_answer(block: TranscriptBlock) -> str:
    text = format_block(block)
    document = block.document
    return f"```{document.metadata.language}\n{text}\n```" if isinstance(document, CodeBlockDocument) else text


def _list_code(block: TranscriptBlock) -> list[str]:
    """Return the blocks of code that a part of an answer is or holds."""
    text = format_block(block)
    if isinstance(block.document, CodeBlockDocument):
        return [text]
    return [found["code"].rstrip("\n") for found in CODE_BLOCK.finditer(text)]
