"""PDFs: their pages and their text, read in a process of its own.

A few hostile bytes can keep a reader written in Python busy for ever, or exhaust its memory. So it gets a process with
limits, and what it does not finish in time stays unknown.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from core.records import decode_json

TIMEOUT_SECONDS: Final = 10.0
MAX_TEXT_CHARS: Final = 400_000  # characters
_READER: Final = Path(__file__).with_name("pdf_reader.py")


class PdfFacts(Struct, frozen=True, kw_only=True):
    """`pages` 0 = not counted; `damaged`: why it can't be read, "" = it can; `text` "" = none, or not asked for."""

    pages: int = 0
    encrypted: bool = False
    damaged: str = ""
    text: str = ""


def read_pdf_facts(data: bytes, *, text: bool = False) -> PdfFacts:
    """Return the facts of a PDF. Slow; never raises: what can't be found out is left at its default."""
    command = [sys.executable, "-I", str(_READER), str(MAX_TEXT_CHARS if text else 0)]
    try:
        result = subprocess.run(command, input=data, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
        return decode_json(result.stdout, PdfFacts)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        return PdfFacts()
