"""Command lines of processes beside the engine, and what the builder is sent. Light: read when the engine starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

# -I: nothing of the environment or the working directory; -S: no site-packages of its own, it is told where ours are.
_ISOLATION: Final = ("-I", "-S", "-B")
_PATH: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
_START: Final = "from core.index.builder import main; main()"


class BuilderRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Paths that have changed; none: too many to name, all files are compared."""

    changed: tuple[str, ...] = ()


def build_builder_command(root: Path, database: Path) -> list[str]:
    """Return the words that start the builder of a workspace."""
    return build_process_command(_START, str(root), str(database))


def build_process_command(code: str, *arguments: str) -> list[str]:
    """Return the words that run code of this program in a process of its own; `arguments` stand from argv[2] on."""
    return [sys.executable, *_ISOLATION, "-c", _PATH + code, json.dumps(sys.path), *arguments]
