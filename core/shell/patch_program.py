"""The program `apply_patch` of commands: models call it in scripts (`cd src && apply_patch <<'EOF'`), and in pipes.

It runs where the command runs, with the rights of the command, so in a box its changes are those of a command and come
to review as such. The patch is parsed and placed as the tool's: all of it is applied or nothing. A command that is
nothing but a call with its patch never gets here, it is a call of the tool (`core.tools.foreign_calls`).

It is started with the bare interpreter of this installation, so it imports only the patch engine and what that needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.edits.errors import EditError, format_part
from core.edits.formats.patch import apply_file_patch
from core.edits.formats.patch_parser import parse_patch
from core.edits.formats.patch_records import FilePatch
from core.edits.text_file import TextFile, decode_text
from core.errors import AgentTuiError
from core.filesystem.atomic_write import replace_file

USAGE: Final = "usage: apply_patch [PATCH | FILE], or with the patch on standard input"
_OPTIONS: Final = ("-p0", "-p1", "--", "-")
_NEW_FILE: Final = 0o666


def main(arguments: Sequence[str]) -> int:
    """Apply a patch to the files below the current directory. Returns the exit code."""
    words = [word for word in arguments if word not in _OPTIONS]
    is_asked = bool({"-h", "--help"} & set(words))
    if is_asked or len(words) > 1 or (not words and sys.stdin.isatty()):
        sys.stderr.write(f"{USAGE}\n")
        return 0 if is_asked else 2
    try:
        lines = apply(_read_patch(words[0]) if words else sys.stdin.buffer.read().decode("utf-8", "surrogateescape"))
    except (AgentTuiError, OSError) as error:
        hint = getattr(error, "hint", "")
        sys.stderr.write(f"apply_patch: {error}\n{hint}\n" if hint else f"apply_patch: {error}\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _read_patch(word: str) -> str:
    if "\n" in word:
        return word
    return Path(word).read_bytes().decode("utf-8", "surrogateescape")


def apply(text: str) -> list[str]:
    """Apply a patch and return a line for each file: A, M or D, and its path. Raises `EditError`, `OSError`."""
    patches = parse_patch(text)
    before: dict[Path, bytes | None] = {}
    after: dict[Path, bytes | None] = {}
    for number, patch in enumerate(patches, start=1):
        try:
            _apply_file(patch, before, after)
        except EditError as error:
            part = format_part("File", number, len(patches))
            raise error.name_part(f"{part}, {patch.path}" if part else patch.path) from error
    changes = {path: data for path, data in after.items() if data != before[path]}
    if not changes:
        raise EditError("The patch changes nothing: the files already match it.", hint="Go on.")
    _write(changes, before)
    return [f"{_name_change(before[path], data)} {os.path.relpath(path)}" for path, data in changes.items()]


def _name_change(before: bytes | None, after: bytes | None) -> str:
    return "D" if after is None else "A" if before is None else "M"


def _apply_file(patch: FilePatch, before: dict[Path, bytes | None], after: dict[Path, bytes | None]) -> None:
    if not patch.path:
        raise EditError("The patch does not name its file.", hint="Begin it with *** Update File: path.")
    path = _load(patch.path, before, after)
    data = after[path]
    file = TextFile(text="") if data is None else decode_text(data)
    if file is None:
        raise EditError("It is not a text file.", hint="Nothing was changed.")
    result = apply_file_patch(None if data is None else file.text, patch).text
    encoded = None if result is None else file.encode(result)
    if patch.moved_to:
        target = _load(patch.moved_to, before, after)
        if after[target] is not None:
            raise EditError(f"{patch.moved_to} exists, so nothing can be moved there.", hint="Nothing was changed.")
        after[path], after[target] = None, encoded
    else:
        after[path] = encoded


def _load(name: str, before: dict[Path, bytes | None], after: dict[Path, bytes | None]) -> Path:
    """Return the file that a patch names, read at its first mention."""
    path = Path(os.path.realpath(name))
    if path not in after:
        after[path] = before[path] = path.read_bytes() if path.exists() else None
    return path


def _write(changes: Mapping[Path, bytes | None], before: Mapping[Path, bytes | None]) -> None:
    """Write every file; if one can't be written, those already written are restored."""
    done: list[Path] = []
    try:
        for path, data in changes.items():
            done.append(path)
            _write_one(path, data)
    except OSError:
        for path in done:
            with suppress(OSError):
                _write_one(path, before[path])
        raise


def _write_one(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    mask = os.umask(0)
    os.umask(mask)
    replace_file(path, data, mode=path.stat().st_mode if path.exists() else _NEW_FILE & ~mask, durable=False)
