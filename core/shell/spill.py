"""Long tool results: the model gets head and tail, the whole is spilled into a file that it can read."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import IO

from core.filesystem.private_directories import make_private_directory
from core.secrets import mask_secrets

MAX_RESULT = 120_000  # characters of a result that go to the model
MAX_SUMMARY = 200  # characters
OUTPUTS_FOLDER = "outputs"
_PLAIN = re.compile(r"[a-z0-9_]{1,64}")
_NAME = re.compile(r"output:(?P<call>[a-z0-9_]{1,64})\.txt")


def clip_text(directory: Path, call: str, text: str) -> tuple[str, str]:
    """Return the text as the model gets it, and the name of the file with the whole ("" = nothing was left out)."""
    if len(text) <= MAX_RESULT:
        return text, ""
    name, reason = spill_output(directory, call, text)
    hint = f"the whole is kept: read_file {name}" if name else f"the whole could not be kept: {reason}"
    head, tail = MAX_RESULT * 2 // 3, MAX_RESULT // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters left out; {hint} …]\n{text[-tail:]}", name


def extract_first_line(text: str) -> str:
    """Return the first line of a result as it is shown to the user."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= MAX_SUMMARY else f"{line[:MAX_SUMMARY].rpartition(' ')[0]}…"


def create_output_file(directory: Path, name: str) -> IO[bytes]:
    """Create or empty a file that the model can read. Raises OSError."""
    folder = directory / OUTPUTS_FOLDER
    make_private_directory(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return os.fdopen(os.open(folder / f"{get_output_name(name)}.txt", flags, 0o600), "wb")


def get_output_name(call: str) -> str:
    """Return the name of the file for a call. Models and agents number their calls in any words, so an id that is no
    plain name is replaced by its digest."""
    return call if _PLAIN.fullmatch(call) else hashlib.sha256(call.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def spill_output(directory: Path, name: str, text: str) -> tuple[str, str]:
    """Write a text to a file that the model can read. Returns its name, and why there is none ("" = there is)."""
    try:
        with create_output_file(directory, name) as file:
            file.write(mask_secrets(text).encode("utf-8", "replace"))
    except OSError as error:
        return "", error.strerror or "it can't be written"
    return f"output:{get_output_name(name)}.txt", ""


def read_spilled(directory: Path, path: str) -> bytes | None:
    """Return the content of a spilled result; None for any other path."""
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    try:
        return (directory / OUTPUTS_FOLDER / f"{match['call']}.txt").read_bytes()
    except OSError:
        return None
