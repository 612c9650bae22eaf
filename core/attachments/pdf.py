"""PDFs: their pages and their text, read in a process of its own.

A reader written in Python can be kept busy for ever, or out of memory, by a few hostile bytes. So it gets a process
with limits, and what it does not finish in time is not known.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

SECONDS: Final = 10.0
MAX_TEXT: Final = 400_000  # characters
_READER: Final = Path(__file__).with_name("pdf_reader.py")


class PdfFacts(Struct, frozen=True, kw_only=True):
    """`pages` 0 = they could not be counted; `damaged`: why it can't be read, "" = it can. `text`: "" = there is none,
    or it was not asked for."""

    pages: int = 0
    encrypted: bool = False
    damaged: str = ""
    text: str = ""


def facts_of(data: bytes, *, text: bool = False) -> PdfFacts:
    """What there is to know of a PDF. Takes its time; never raises: what can't be found out is not known."""
    command = [sys.executable, "-I", str(_READER), str(MAX_TEXT if text else 0)]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=False)
        return msgspec.json.decode(done.stdout, type=PdfFacts)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        return PdfFacts()
