"""`agent-tui image`: save a picture or a PDF from standard input and print the path of the file.

This brings a picture to a program on another machine, whose clipboard is not the local one: the path can be pasted. The
files are private to the user and are deleted after a week.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Final

from core.arguments import Arguments, Front
from core.attachments.preparation import MAX_INPUT_BYTES, prepare_attachment
from core.cli.parsing import build_parser, parse_directory
from core.cli.streams import read_input
from core.errors import ConfigError
from core.exits import ExitCode
from core.filesystem.private_files import write_private
from core.user_dirs import get_state_dir

IMAGE_TEXT = """\
Save a picture or PDF from standard input for a week and print its path, to paste
into the prompt. Over SSH, from your own machine:

  wl-paste -t image/png | ssh HOST agent-tui image
  xclip -selection clipboard -t image/png -o | ssh HOST agent-tui image
  pngpaste - | ssh HOST agent-tui image"""


RETENTION_SECONDS: Final = 7 * 24 * 3600  # seconds
FOLDER: Final = "pictures"
PLAIN: Final = "Send a picture: wl-paste -t image/png | ssh HOST agent-tui image"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArguments(Arguments):
    front: ClassVar[Front] = "image"


def parse(argv: Sequence[str]) -> ImageArguments:
    """Parse the arguments of `agent-tui image`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui image", "agent-tui image < PICTURE", IMAGE_TEXT)
    parser.parse_args(argv)
    return ImageArguments(directory=parse_directory([], parser))


def run(_: ImageArguments) -> int:
    """Read standard input and print the path. Raises `AttachmentRefused` for other data, `ConfigError` for no data."""
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError("agent-tui image reads a picture from standard input.", hint=PLAIN, code="no_input")
    path = save_picture(sys.stdin.buffer, get_state_dir() / FOLDER)
    sys.stdout.write(f"{path}\n")
    return ExitCode.DONE


def save_picture(source: BinaryIO, folder: Path) -> Path:
    """Save the picture and return its path. Raises `ConfigError` if it can't be written."""
    prepared = prepare_attachment(read_input(source, MAX_INPUT_BYTES + 1), "standard input")
    suffix = prepared.attachment.media_type.rpartition("/")[2].replace("jpeg", "jpg")
    path = folder / f"{prepared.attachment.digest[:16]}.{suffix}"
    try:
        write_private(path, prepared.data)
    except OSError as problem:
        raise ConfigError(f"{path} can't be written: {problem.strerror}.", hint="Free some space there.") from None
    sweep(folder, older_than=time.time() - RETENTION_SECONDS)
    return path


def sweep(folder: Path, *, older_than: float) -> None:
    """Remove files that were last written before a moment (seconds since the epoch)."""
    for path in folder.iterdir():
        with suppress(OSError):
            if path.lstat().st_mtime < older_than:
                path.unlink()
