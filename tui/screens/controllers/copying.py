"""The controller of copying: the selection, the item at the cursor, the last answer, a hunk, or all changes."""

from __future__ import annotations

import re
from typing import Final

from textual.widget import Widget

from core.patterns import compile_lazily
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

CODE_BLOCK: Final = compile_lazily(r"^(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<code>.*?)^(?P=fence)[`~]*[ \t]*$", re.M | re.S)
_ANSWER_KINDS: Final = frozenset({"text", "code_block"})
USAGE: Final = "/copy, /copy code [NUMBER], /copy hunk, /copy patch, /copy runs"
COMPARE_FIRST: Final = "No runs compared yet: press v on the debug board."


class CopyController(Controller):
    """Copies, and reports the tool that did it."""

    @in_worker("copying")
    async def copy(self, text: str) -> None:
        """Copy a text; a notice names its receivers."""
        if not text:
            self.context.notify_user("Nothing to copy here.")
            return
        driver = self.context.screen.app._driver
        report = await copy_text(text, driver.write_sequence if isinstance(driver, TerminalDriver) else None)
        size = count("line", text.count("\n") + 1) if "\n" in text else count("character", len(text))
        if report.taken_by:
            self.context.notify_user(f"Copied {size}: {', '.join(report.taken_by)}.")
        else:
            self.context.notify_user(f"Couldn't copy {size}.", report.hint, is_error=True)

    def action_copy(self, argument: str = "") -> None:
        """Copy the last answer, or the target that the argument names."""
        subject, _, number = argument.strip().partition(" ")
        match subject:
            case "":
                self._copy(self._find_answer(), "No answer yet.")
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
                self.context.notify_user(f"Can't copy {argument!r}.", USAGE, is_error=True)

    def action_copy_here(self) -> None:
        """Copy the selection, or the item at the cursor."""
        screen = self.context.screen
        selected_text = screen.app.screen.get_selected_text()
        widget = screen.app.focused
        self._copy(selected_text or (self._find_text(widget) if widget else ""), "Nothing to copy here.")

    def _copy(self, text: str, problem: str) -> None:
        if text:
            self.context.screen.app.copy_to_clipboard(text)
        else:
            self.context.notify_user(problem)

    def _find_text(self, focus: Widget) -> str:
        for widget in focus.ancestors_with_self:
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
        """Return the blocks of the last answer, up to the work before it."""
        answer_blocks: list[TranscriptBlock] = []
        for block in reversed(self.context.state.blocks):
            if block.kind in _ANSWER_KINDS:
                answer_blocks.append(block)
            elif answer_blocks:
                break
        return answer_blocks[::-1]

    def _find_answer(self) -> str:
        return "\n\n".join(filter(None, map(_format_answer, self._list_answer())))

    def _copy_code(self, number: str) -> None:
        code_blocks = [code for block in self._list_answer() for code in _list_code(block)]
        block_number = int(number) if number.isdecimal() else 1
        if not 1 <= block_number <= len(code_blocks):
            self.context.notify_user(f"The last answer has {count('code block', len(code_blocks))}.", USAGE)
            return
        self.context.screen.app.copy_to_clipboard(code_blocks[block_number - 1])

    def _find_shown_hunk(self) -> tuple[ChangeDiff, int] | None:
        """Return the change that the review shows, with the index of the hunk at the cursor."""
        pane = next(iter(self.context.screen.query(ReviewPane)), None)
        diff = pane.browser.get_diff() if pane is not None else None
        return (diff, pane.browser.diff_view.current) if pane is not None and diff is not None else None

    def _find_hunk_lines(self) -> str:
        location = self._find_shown_hunk()
        return list_hunk_lines(*location) if location is not None else ""

    def _copy_hunk(self) -> None:
        location = self._find_shown_hunk()
        hunks = location[0].change.hunks if location is not None else ()
        if location is None or not 0 <= location[1] < len(hunks):
            self.context.notify_user("No hunk on screen: Ctrl+R to review.")
            return
        self._copy_patch(queries.PatchQuery(paths=(location[0].change.path,), hunks=(hunks[location[1]].id,)))

    @in_worker("copying_patch")
    async def _copy_patch(self, question: queries.PatchQuery) -> None:
        """Copy changes as a patch in git's format; a notice names omitted ones."""
        answer = await self.context.query(question, queries.PatchAnswer, "No patch.")
        if answer is None:
            return
        try:
            text = answer.patch.decode()
        except UnicodeDecodeError:
            self.context.notify_user("The patch is not UTF-8 text.", "agent-tui diff prints it unchanged.")
            return
        self._copy(text, "No pending changes to copy as a patch.")
        if answer.left_out and text:
            self.context.notify_user(f"Left out of the patch: {', '.join(path for path, _ in answer.left_out)}.")


def list_hunk_lines(diff: ChangeDiff, hunk: int) -> str:
    """Return the added lines of a hunk, or its removed ones if it adds none."""
    lines = [line for line in diff.lines if line.hunk == hunk]
    kind = "added" if any(line.kind == "added" for line in lines) else "removed"
    return "\n".join(line.text for line in lines if line.kind == kind)


def _format_answer(block: TranscriptBlock) -> str:
    text = format_block(block)
    document = block.document
    return f"```{document.metadata.language}\n{text}\n```" if isinstance(document, CodeBlockDocument) else text


def _list_code(block: TranscriptBlock) -> list[str]:
    """Return the blocks of code that a part of an answer is or holds."""
    text = format_block(block)
    if isinstance(block.document, CodeBlockDocument):
        return [text]
    return [match["code"].rstrip("\n") for match in CODE_BLOCK.finditer(text)]
