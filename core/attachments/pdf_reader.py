"""Reads a PDF from standard input and prints what it found as JSON; a program of its own, see `pdf`.

The first argument is how many characters of its text are wanted. Nothing of this project is imported here.
"""

from __future__ import annotations

import importlib
import io
import json
import logging
import sys
from typing import Any, Final

MEMORY: Final = 1 << 30  # bytes
PROCESSOR: Final = 10  # seconds


def _limit() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR))
    if sys.platform.startswith("linux"):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def read(data: bytes, wanted: int) -> dict[str, Any]:
    """The facts of `PdfFacts`, as far as they can be found."""
    pypdf = importlib.import_module("pypdf")
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"encrypted": True}
        pages = len(reader.pages)
    except (MemoryError, RecursionError):
        return {}
    except Exception as problem:  # a parser's errors are of any class
        return {"damaged": f"{str(problem).strip() or type(problem).__name__}."[:200]}
    parts: list[str] = []
    for number, page in enumerate(reader.pages if wanted else (), 1):
        try:
            parts.append(f"--- page {number} ---\n{page.extract_text()}")
        except Exception:  # one page that can't be read does not take the others with it
            parts.append(f"--- page {number}: it can't be read ---")
        if sum(map(len, parts)) > wanted:
            break
    return {"pages": pages, "text": "\n".join(parts)[:wanted]}


if __name__ == "__main__":
    _limit()
    logging.disable(logging.CRITICAL)
    sys.stdout.write(json.dumps(read(sys.stdin.buffer.read(), int(sys.argv[1]))))
