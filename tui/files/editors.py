"""Editors of the user: how each is found, told a line, and waited for.

One that has a window of its own runs beside the screen, which stays; any other gets the terminal. An editor is found
outside of the project, and no file of the project decides which one it is.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tui.files.references import FilePlace

_KEY_NAME: Final = re.compile(r"(?i)api_?key|token|secret|passw|credential")
_FALLBACK: Final = "vi"


class EditorCall(NamedTuple):
    """The commands that open a place, one after the other. `has_window`: of its own."""

    commands: tuple[tuple[str, ...], ...]
    has_window: bool = False


class _Form(NamedTuple):
    """The arguments of an editor, where `path`, `line` and `column` are filled in. `wait`: lets it end when the file is
    closed; "" = it does so anyway."""

    arguments: tuple[str, ...]
    has_window: bool = False
    wait: str = ""


_LINE: Final = _Form(("+{line}", "{path}"))
_LINE_COLUMN: Final = _Form(("+{line}:{column}", "{path}"))
_BEHIND: Final = ("{path}:{line}:{column}",)
_GOTO: Final = _Form(("--goto", *_BEHIND), has_window=True, wait="--wait")
_JETBRAINS: Final = _Form(("--line", "{line}", "--column", "{column}", "{path}"), has_window=True, wait="--wait")
_BEHIND_WINDOW: Final = _Form(_BEHIND, has_window=True, wait="--wait")
_VI_LIKE: Final = ("ex", "jed", "joe", "mcedit", "mg", "ne", "nvim", "pico", "vi", "view", "vim", "vimx")
_CODE_LIKE: Final = ("code", "code-insiders", "code-oss", "codium", "cursor", "positron", "vscodium", "windsurf")
_IDEA_LIKE: Final = (
    *("clion", "datagrip", "goland", "idea", "idea.sh", "phpstorm", "pycharm", "rider", "rubymine", "rustrover"),
    *("studio", "webstorm"),
)
_FORMS: Final[Mapping[str, _Form]] = {
    **dict.fromkeys(_VI_LIKE, _LINE),
    **dict.fromkeys(("emacs", "emacsclient", "kak", "micro"), _LINE_COLUMN),
    **dict.fromkeys(("helix", "hx"), _Form(_BEHIND)),
    "nano": _Form(("+{line},{column}", "{path}")),
    **dict.fromkeys(_CODE_LIKE, _GOTO),
    **dict.fromkeys(("subl", "sublime_text", "zed", "zeditor", "zedit"), _BEHIND_WINDOW),
    **dict.fromkeys(_IDEA_LIKE, _JETBRAINS),
    **dict.fromkeys(("gvim", "mvim"), _Form(_LINE.arguments, has_window=True, wait="-f")),
    "bbedit": _Form(_LINE.arguments, has_window=True, wait="--wait"),
    "gedit": _Form(_LINE_COLUMN.arguments, has_window=True, wait="--wait"),
    "kate": _Form(("--line", "{line}", "--column", "{column}", "{path}"), has_window=True, wait="--block"),
    "mate": _Form(("--line", "{line}:{column}", "{path}"), has_window=True, wait="--wait"),
}
_EMACS_IN_TERMINAL: Final = frozenset({"-nw", "--no-window-system", "-t", "--tty", "-nw="})


def build_editor_call(
    editor: Sequence[str], file_place: FilePlace, environment: Mapping[str, str], *, is_blocking: bool = False
) -> EditorCall:
    """Build the call of an editor for a place with an absolute path. One that is not known gets the path alone.

    `is_blocking`: it is to end when the file is closed. Else, inside of nvim, the nvim around us shows the file.
    """
    program, *words = editor
    name = Path(program).name.lower().removesuffix(".exe").removesuffix(".cmd")
    server = environment.get("NVIM", "")
    if name == "nvim" and server and not is_blocking:
        remote = (program, "--server", server)
        goes_there = f"cursor({file_place.line},{file_place.column})"
        return EditorCall(
            ((*remote, "--remote", file_place.path), (*remote, "--remote-expr", goes_there)), has_window=True
        )
    form = _FORMS.get(name, _Form(("{path}",)))
    wait = [form.wait] if is_blocking and form.wait and form.wait not in words else []
    arguments = [argument.format(**file_place._asdict()) for argument in form.arguments]
    has_window = form.has_window or (name in {"emacs", "emacsclient"} and _opens_emacs_window(words, environment))
    return EditorCall(((program, *words, *wait, *arguments),), has_window)


def _opens_emacs_window(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    has_display = any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return has_display and _EMACS_IN_TERMINAL.isdisjoint(words)


def choose_editor(environment: Mapping[str, str]) -> list[str]:
    """Return the words that start the editor for a file: `$VISUAL`, else `$EDITOR`, else the one that we run in."""
    if not (environment.get("VISUAL") or environment.get("EDITOR")):
        around = "nvim" if environment.get("NVIM") else "code" if environment.get("TERM_PROGRAM") == "vscode" else ""
        if around:
            editor_command = find_editor_command({**environment, "EDITOR": around})
            if Path(editor_command[0]).is_absolute():
                return editor_command
    return find_editor_command(environment)


def find_editor_command(environment: Mapping[str, str]) -> list[str]:
    """Return the words that start the editor: `$VISUAL`, else `$EDITOR`, else vi.

    A bare name is looked for on PATH without relative entries and those below the current directory. Raises ValueError
    when the words can't be told apart.
    """
    program, *words = shlex.split(environment.get("VISUAL") or environment.get("EDITOR") or _FALLBACK)
    if "/" in program:
        return [str(Path(program).expanduser().absolute()), *words]
    current_directory, entries = Path.cwd(), environment.get("PATH", os.defpath).split(os.pathsep)
    outside = [entry for entry in entries if entry.startswith("/") and not _is_inside(Path(entry), current_directory)]
    return [shutil.which(program, path=os.pathsep.join(outside)) or program, *words]


def _is_inside(entry: Path, directory: Path) -> bool:
    return directory != Path("/") and entry.resolve().is_relative_to(directory)


def find_scratch_directory(*, is_private: bool) -> str | None:
    """Return the directory for the editor's file: in memory for a private session if possible; None = the default."""
    places = (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm") if is_private else ()
    return next(
        (directory for directory in places if directory and Path(directory).is_dir() and os.access(directory, os.W_OK)),
        None,
    )


def drop_api_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program of the user's own, without the keys of model APIs."""
    return {name: value for name, value in environment.items() if not _KEY_NAME.search(name)}
