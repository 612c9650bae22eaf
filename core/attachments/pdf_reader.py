"""A program that reads a PDF from standard input and prints its facts as JSON; `preparation` starts it.

Its first argument is the maximal number of characters of text. It imports nothing of this project.
"""

from __future__ import annotations

import importlib
import io
import json
import logging
import sys
from typing import Any, Final

MAX_MEMORY_BYTES: Final = 1 << 30  # bytes
MAX_CPU_SECONDS: Final = 10  # seconds


def _limit_resources() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    if sys.platform.startswith("linux"):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def read_facts(data: bytes, max_chars: int) -> dict[str, Any]:
    """Return the fields of `PdfFacts` that can be determined."""
    pypdf = importlib.import_module("pypdf")
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"encrypted": True}
        pages = len(reader.pages)
    except (MemoryError, RecursionError):
        return {}
    except Exception as problem:  # the parser raises errors of any class
        return {"damaged": f"{str(problem).strip() or type(problem).__name__}."[:200]}
    parts: list[str] = []
    for number, page in enumerate(reader.pages if max_chars else (), 1):
        try:
            parts.append(f"--- page {number} ---\n{page.extract_text()}")
        except Exception:  # an unreadable page must not affect the others
            parts.append(f"--- page {number}: can't be read ---")
        if sum(map(len, parts)) > max_chars:
            break
    return {"pages": pages, "text": "\n".join(parts)[:max_chars]}


if __name__ == "__main__":
    _limit_resources()
    logging.disable(logging.CRITICAL)
    sys.stdout.write(json.dumps(read_facts(sys.stdin.buffer.read(), int(sys.argv[1]))))
