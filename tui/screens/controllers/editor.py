"""The controller of the user's own editor: found outside of the project, and started where no file of it has a say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tui.screens.controller import Controller

_KEY_NAME: Final = re.compile(r"(?i)api_?key|token|secret|passw|credential")


class EditorController(Controller):
    """Edits text of the screen in `$VISUAL` or `$EDITOR`."""

    def action_external_editor(self) -> None:
        """Write the prompt, or the hunk or plan that is being edited, in the user's own editor."""
        focused: Any = self.context.screen.focused
        prompt = self.context.prompt
        if hasattr(focused, "suffix"):
            if (text := self.edit(focused.text, focused.suffix)) is not None:
                focused.text = text
        elif (text := self.edit(prompt.expanded_text, ".md")) is not None:
            prompt.set_text(text)

    def edit(self, text: str, suffix: str) -> str | None:
        """Return `text` as the user's own editor leaves it, without its last newlines; None: it did not work."""
        place = find_scratch_directory(is_private=self.context.state.is_private)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        with tempfile.TemporaryDirectory(prefix="agent-tui-", dir=place) as scratch:
            path = Path(scratch) / f"text{suffix}"
            path.write_text(text, encoding="utf-8")
            try:
                with self.context.screen.app.suspend():
                    command = [*find_editor_command(os.environ), str(path)]
                    subprocess.run(command, check=True, cwd=scratch, env=drop_api_keys(os.environ))
                return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
            except Exception as problem:  # an editor may fail in any way; the text stays as it was
                told = f"The editor {editor!r} did not work: {problem}"
                self.context.notify_user(told, "Set $EDITOR.", is_error=True)
        return None


def find_editor_command(environment: Mapping[str, str]) -> list[str]:
    """Return the words that start the editor: `$VISUAL`, else `$EDITOR`, else vi.

    A bare name is looked for on PATH without relative entries and those below the current directory. Raises ValueError
    when the words can't be told apart.
    """
    program, *words = shlex.split(environment.get("VISUAL") or environment.get("EDITOR") or "vi")
    if "/" in program:
        return [str(Path(program).expanduser().absolute()), *words]
    here, entries = Path.cwd(), environment.get("PATH", os.defpath).split(os.pathsep)
    outside = [each for each in entries if each.startswith("/") and not _is_inside(Path(each), here)]
    return [shutil.which(program, path=os.pathsep.join(outside)) or program, *words]


def _is_inside(entry: Path, directory: Path) -> bool:
    return directory != Path("/") and entry.resolve().is_relative_to(directory)


def find_scratch_directory(*, is_private: bool) -> str | None:
    """Return the directory for the editor's file: in memory for a private session if possible; None = the default."""
    places = (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm") if is_private else ()
    return next((each for each in places if each and Path(each).is_dir() and os.access(each, os.W_OK)), None)


def drop_api_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program of the user's own, without the keys of model APIs."""
    return {name: value for name, value in environment.items() if not _KEY_NAME.search(name)}
