"""The command line of a Python for a box: apart from the user's settings, and leaving nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path

# -I: no PYTHON* variables, no user site, nothing of the working directory. -S: no site-packages, whose .pth files run
# code. -B: no .pyc files, which a disk that is full cuts off; the installation would not start from those any more.
ISOLATION = ("-I", "-S", "-B")
_IMPORT = "import sys; sys.path.insert(0, sys.argv[1]); from core.sandbox.inside.{} import main"
_CALL = "main(*map(int, sys.argv[2:]))"


def build_python_command(module: str, *numbers: int) -> list[str]:
    """Return the words that run `main(*numbers)` of a module of `core.sandbox.inside`."""
    root = Path(__file__).parents[2]
    return [sys.executable, *ISOLATION, "-c", f"{_IMPORT.format(module)}; {_CALL}", str(root), *map(str, numbers)]
