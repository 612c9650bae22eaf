"""Command lines of helper processes, and the request to the builder. Light, because the engine imports it at its
start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

# -I: ignore the environment and the working directory; -S: no site-packages, as `sys.path` is passed on.
_ISOLATION: Final = ("-I", "-S", "-B")
_PATH: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
_START: Final = "from core.index.builder import main; main()"


class BuilderRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Paths that have changed; none: too many to name, so all files are compared."""

    changed: tuple[str, ...] = ()


def build_builder_command(root: Path, database: Path) -> list[str]:
    """Return the command line that starts the builder of a workspace."""
    return build_process_command(_START, str(root), str(database))


def build_process_command(code: str, *arguments: str) -> list[str]:
    """Return the command line that runs code of this program in its own process; `arguments` start at argv[2]."""
    return [sys.executable, *_ISOLATION, "-c", _PATH + code, json.dumps(sys.path), *arguments]
