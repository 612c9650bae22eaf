"""The controller of the user's editor: it edits text of the screen, and opens positions in the project.

It opens the user's file. A pending change opens as a scratch copy, whose edited hunks return when the editor ends. The
editor is searched and started outside of the project, so that no file of the project affects it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from textual.widget import Widget

from core.protocol import commands, queries
from core.protocol.review import Change
from core.text.counting import count
from tui.chat.transcript import Transcript
from tui.dialogs.picker import PickerDialog, PickerOption
from tui.files.editors import (
    EditorCommand,
    FilePosition,
    ScratchCopy,
    build_editor_command,
    choose_editor,
    drop_api_keys,
    find_editor_command,
    find_path,
    find_positions,
    find_scratch_directory,
)
from tui.files.file_tree import FileTree
from tui.files.preview import FilePreview
from tui.review.pane import ReviewPane
from tui.screens.controller import Controller, in_worker
from tui.text import fit_line, format_path

MAX_EDITED: Final = 8_000_000  # bytes of a pending file


class EditorController(Controller):
    """Edits text of the screen and opens positions in `$VISUAL` or `$EDITOR`."""

    def action_external_editor(self) -> None:
        """Write the prompt, or the hunk or plan that is being edited, in the user's own editor."""
        widget: Any = self.context.screen.focused
        prompt = self.context.prompt
        if hasattr(widget, "suffix"):
            if (text := self.edit(widget.text, widget.suffix)) is not None:
                widget.text = text
        elif (text := self.edit(prompt.expanded_text, ".md")) is not None:
            prompt.set_text(text)

    def edit(self, text: str, suffix: str) -> str | None:
        """Return `text` as the user's own editor leaves it, without its last newlines; None: it did not work."""
        parent = find_scratch_directory(is_private=self.context.state.is_private)
        with tempfile.TemporaryDirectory(prefix="agent-tui-", dir=parent) as scratch:
            path = Path(scratch) / f"text{suffix}"
            path.write_text(text, encoding="utf-8")
            try:
                call = build_editor_command(
                    find_editor_command(os.environ), FilePosition(str(path)), os.environ, is_blocking=True
                )
                self._run_in_terminal(call, scratch)
                return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
            except Exception as problem:  # any error of the editor leaves the text unchanged
                self._report(problem)
        return None

    # Positions

    def action_open_here(self) -> None:
        """Open the position at the cursor."""
        app = self.context.screen.app
        places = self._find_places(app.focused) if app.focused is not None else []
        if not places:
            self.context.notify_user("No project file is named here.")
        elif len(places) == 1:
            self.open_place(places[0])
        else:
            self._choose_place(places)

    @in_worker("editor.choice")
    async def _choose_place(self, places: list[FilePosition]) -> None:
        labels = [f"{format_path(file_place.path, 200)}:{file_place.line}" for file_place in places]
        options = [PickerOption(str(number), words, "") for number, words in enumerate(labels)]
        choice = await self.context.ask(PickerDialog("Open in editor", options))
        if choice:
            self.open_place(places[int(choice)])

    def _find_places(self, focus: Widget) -> list[FilePosition]:
        """Return the positions that the focused widget refers to."""
        for widget in focus.ancestors_with_self:
            match widget:
                case ReviewPane():
                    location = widget.current_place
                    return [FilePosition(*location)] if location is not None else []
                case FilePreview():
                    return [FilePosition(widget.path, widget.line)] if widget.path else []
                case FileTree():
                    node = widget.cursor_node
                    item = node.data if node is not None else None
                    return [FilePosition(item.path)] if item is not None and item.entry.kind != "directory" else []
                case Transcript():
                    return self._find_references(widget)
        return []

    def _find_references(self, transcript: Transcript) -> list[FilePosition]:
        """Return the positions in the text of the marked row, or the file of the row."""
        if (block := transcript.current_block) is None:
            return []
        state = self.context.state
        places = find_positions(transcript.current_text, state.workspace, state.changes.__contains__)
        path = find_path(block.subject, state.workspace, state.changes.__contains__) if block.subject else ""
        return places or ([FilePosition(path)] if path else [])

    @in_worker("editor", exclusive=False)
    async def open_place(self, file_place: FilePosition) -> None:
        """Open a position in the user's editor: in their file, or in a copy of its pending version."""
        change = self.context.state.changes.get(file_place.path)
        try:
            if change is not None and change.hunks and change.operation != "delete":
                await self._edit_pending(file_place, change)
            else:
                file = Path(self.context.state.workspace) / file_place.path
                await self._run(file_place._replace(path=str(file.absolute())), str(Path.home()), is_blocking=False)
        except Exception as problem:  # any error of the editor leaves the file unchanged
            self._report(problem)

    async def _edit_pending(self, file_place: FilePosition, change: Change) -> None:
        """Open a scratch copy of the pending file; edits of its hunks become their pending state."""
        question = queries.FileQuery(path=file_place.path, max_bytes=MAX_EDITED)
        answer = await self.context.query(question, queries.FileAnswer, "Can't read the file.")
        if answer is None or answer.problem:
            self.context.notify_user(answer.problem if answer else "", is_error=True)
            return
        parent = find_scratch_directory(is_private=self.context.state.is_private)
        copy = ScratchCopy(file_place.path, answer.text, parent=parent)
        try:
            await self._run(file_place._replace(path=str(copy.file)), str(copy.file.parent), is_blocking=True)
        except Exception:
            copy.remove()
            raise
        edits = copy.read_edits(change.hunks)
        is_taken = [
            await self.context.submit(commands.HunkEdit(path=file_place.path, hunk=hunk, text=text))
            for hunk, text in edits.texts.items()
        ]
        if edits.outside or not all(is_taken):
            copy_hint = f"Your copy is saved: {copy.file}"
            message = f"{count('change', edits.outside)} outside the hunks not taken over." if edits.outside else ""
            self.context.notify_user(message, copy_hint, is_error=True)
            return
        copy.remove()
        if edits.texts:
            name = format_path(file_place.path, 100)
            self.context.notify_user(f"{count('hunk', len(edits.texts))} of {name} updated with your edits.")

    async def _run(self, file_place: FilePosition, directory: str, *, is_blocking: bool) -> None:
        """Run the editor on an absolute position: in the terminal, or in its own window until it ends."""
        call = build_editor_command(choose_editor(os.environ), file_place, os.environ, is_blocking=is_blocking)
        if not call.has_window:
            self._run_in_terminal(call, directory)
            return
        for command in call.commands:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=directory,
                env=drop_api_keys(os.environ),
                start_new_session=True,  # a window outlives the screen
            )
            if status := await process.wait():
                raise subprocess.CalledProcessError(status, command)

    def _run_in_terminal(self, call: EditorCommand, directory: str) -> None:
        with self.context.screen.app.suspend():
            for command in call.commands:
                subprocess.run(command, check=True, cwd=directory, env=drop_api_keys(os.environ))

    def _report(self, problem: Exception) -> None:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        message = f"The editor {fit_line(repr(editor), 100)} failed: {problem}"
        self.context.notify_user(message, "Set $EDITOR to another one.", is_error=True)
