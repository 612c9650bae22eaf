"""The user's own editor: which command opens it at a line, and the scratch copy of a pending file that it edits.

Edits of the scratch copy return hunk by hunk. Lines outside of the agent's hunks are no part of the pending change, so
the user's file is not touched.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from core.patterns import compile_lazily
from core.protocol.review import Hunk

MAX_PLACES: Final = 200  # of one text
_REFERENCE_FORMS: Final = (
    r'File "(?P<python>[^"\n]{1,400})", line (?P<python_line>\d{1,9})',
    r"(?P<typescript>[^\s\"'`()\[\]{}<>:]{1,400})\((?P<typescript_line>\d{1,9}),(?P<typescript_column>\d{1,9})\)",
    r"(?P<path>[^\s\"'`()\[\]{}<>:|]{1,400}):(?P<path_line>\d{1,9})(?::(?P<path_column>\d{1,9}))?",
)
_REFERENCE: Final = compile_lazily("|".join(_REFERENCE_FORMS))
_KEY_NAME: Final = compile_lazily(r"(?i)api_?key|token|secret|passw|credential")
_FALLBACK: Final = "vi"
_LINE: Final = compile_lazily(r"[^\n]*\n|[^\n]+")


class FilePosition(NamedTuple):
    """A position in a file, from 1. `path` is relative for files of the project."""

    path: str
    line: int = 1
    column: int = 1


def find_positions(text: str, root: str, is_known: Callable[[str], bool]) -> list[FilePosition]:
    """Return the positions in a text, without duplicates and in order, of files below `root` or for which `is_known`
    is true (files that do not exist yet)."""
    places: dict[FilePosition, None] = {}
    for match in _REFERENCE.finditer(text):
        form = next(name for name in ("python", "typescript", "path") if match[name])
        path = find_path(match[form], root, is_known)
        if path:
            groups = match.groupdict()
            places[
                FilePosition(path, int(groups[f"{form}_line"]) or 1, int(groups.get(f"{form}_column") or 1) or 1)
            ] = None
        if len(places) == MAX_PLACES:
            break
    return list(places)


def find_path(word: str, root: str, is_known: Callable[[str], bool]) -> str:
    """Return the path below `root` that a word means, "" = none."""
    base = Path(root)
    for path in _list_readings(word.removeprefix("./")):
        full = base / path
        try:
            inside = full.resolve().relative_to(base.resolve()).as_posix()
            if is_known(inside) or (full.is_file() and inside != "."):
                return inside
        except (OSError, ValueError):
            continue
    return ""


def _list_readings(word: str) -> Iterable[str]:
    """Iterate over the possible paths of a word: itself, or without a diff's `a/` or `b/`."""
    yield word
    if word.startswith(("a/", "b/")):
        yield word[2:]


class EditorCommand(NamedTuple):
    """The commands that open a position, in order. `has_window`: the editor has its own window."""

    commands: tuple[tuple[str, ...], ...]
    has_window: bool = False


class _Form(NamedTuple):
    """The arguments of an editor, with `path`, `line` and `column` to fill in. `wait`: makes it block until the file
    is closed; "" = it always does."""

    arguments: tuple[str, ...]
    has_window: bool = False
    wait: str = ""


_LINE_OPTION: Final = _Form(("+{line}", "{path}"))


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
    **dict.fromkeys(_VI_LIKE, _LINE_OPTION),
    **dict.fromkeys(("emacs", "emacsclient", "kak", "micro"), _LINE_COLUMN),
    **dict.fromkeys(("helix", "hx"), _Form(_BEHIND)),
    "nano": _Form(("+{line},{column}", "{path}")),
    **dict.fromkeys(_CODE_LIKE, _GOTO),
    **dict.fromkeys(("subl", "sublime_text", "zed", "zeditor", "zedit"), _BEHIND_WINDOW),
    **dict.fromkeys(_IDEA_LIKE, _JETBRAINS),
    **dict.fromkeys(("gvim", "mvim"), _Form(_LINE_OPTION.arguments, has_window=True, wait="-f")),
    "bbedit": _Form(_LINE_OPTION.arguments, has_window=True, wait="--wait"),
    "gedit": _Form(_LINE_COLUMN.arguments, has_window=True, wait="--wait"),
    "kate": _Form(("--line", "{line}", "--column", "{column}", "{path}"), has_window=True, wait="--block"),
    "mate": _Form(("--line", "{line}:{column}", "{path}"), has_window=True, wait="--wait"),
}


_EMACS_IN_TERMINAL: Final = frozenset({"-nw", "--no-window-system", "-t", "--tty", "-nw="})


def build_editor_command(
    editor: Sequence[str], file_place: FilePosition, environment: Mapping[str, str], *, is_blocking: bool = False
) -> EditorCommand:
    """Build the command of an editor for an absolute position. An unknown editor gets the path alone.

    `is_blocking`: the command must end when the file is closed. Otherwise, inside nvim's terminal, the outer nvim opens
    the file.
    """
    program, *words = editor
    name = Path(program).name.lower().removesuffix(".exe").removesuffix(".cmd")
    server = environment.get("NVIM", "")
    if name == "nvim" and server and not is_blocking:
        remote = (program, "--server", server)
        goes_there = f"cursor({file_place.line},{file_place.column})"
        return EditorCommand(
            ((*remote, "--remote", file_place.path), (*remote, "--remote-expr", goes_there)), has_window=True
        )
    form = _FORMS.get(name, _Form(("{path}",)))
    wait = [form.wait] if is_blocking and form.wait and form.wait not in words else []
    arguments = [argument.format(**file_place._asdict()) for argument in form.arguments]
    has_window = form.has_window or (name in {"emacs", "emacsclient"} and _opens_emacs_window(words, environment))
    return EditorCommand(((program, *words, *wait, *arguments),), has_window)


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
    """Return the editor's command line: `$VISUAL`, else `$EDITOR`, else vi.

    A bare name is searched on PATH without relative entries and those below the current directory. Raises ValueError
    for unbalanced quotes.
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


class ReturnedEdits(NamedTuple):
    """New texts of hunks, by id. `outside`: number of edits outside of hunks."""

    texts: dict[str, str]
    outside: int = 0


class ScratchCopy:
    """A copy of `text` in a temporary directory, under the file's name, so that the editor detects the language."""

    def __init__(self, path: str, text: str, *, parent: str | None) -> None:
        self._text = text
        self._directory = Path(tempfile.mkdtemp(prefix="agent-tui-", dir=parent))
        self.file = self._directory / PurePosixPath(path).name
        self.file.write_text(text, "utf-8", newline="")

    def read_edits(self, hunks: Sequence[Hunk]) -> ReturnedEdits:
        """Read the edits. Raises OSError if the copy is unreadable."""
        edited_text = self.file.read_bytes().decode("utf-8", "replace")
        return match_edits(self._text, edited_text, hunks)

    def remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def match_edits(before: str, after: str, hunks: Sequence[Hunk]) -> ReturnedEdits:
    """Assign the edits of a text to the hunks whose lines they touch or adjoin.

    A final newline that the editor added is ignored.
    """
    before, after = (text.replace("\r\n", "\n") for text in (before, after))
    if not before.endswith("\n"):
        after = after.removesuffix("\n")
    old, new = _LINE.findall(before), _LINE.findall(after)
    texts: dict[str, str] = {}
    outside = 0
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    edits = [step[1:] for step in steps if step[0] != "equal"]
    for start, end, new_start, new_end in reversed(edits):  # so that the lines above keep their numbers
        hunk = next((candidate for candidate in hunks if _holds(candidate, start, end)), None)
        if hunk is None:
            outside += 1
            continue
        first = hunk.new_start - 1
        lines = _LINE.findall(texts[hunk.id]) if hunk.id in texts else old[first : first + hunk.new_lines]
        lines[start - first : end - first] = new[new_start:new_end]
        texts[hunk.id] = "".join(lines)
    return ReturnedEdits(texts, outside)


def _holds(hunk: Hunk, start: int, end: int) -> bool:
    first = hunk.new_start - 1
    return not hunk.moves and first <= start and end <= first + hunk.new_lines
