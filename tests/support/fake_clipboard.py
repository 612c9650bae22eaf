"""A clipboard tool on PATH that is a script: it answers as xclip and wl-paste do, from files of a directory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

_XCLIP = """#!{python} -I
import pathlib, sys
kept = pathlib.Path({kept!r})
wanted = sys.argv[-1]
if wanted == "TARGETS" or "--list-types" in sys.argv:
    print("TARGETS", *(each.name.replace("+", "/") for each in sorted(kept.iterdir())), sep="\\n")
    sys.exit(0)
file = kept / wanted.replace("/", "+")
if not file.exists():
    sys.exit(1)
sys.stdout.buffer.write(file.read_bytes())
"""


def clipboard_of(directory: Path, held: Mapping[str, bytes], *tools: str) -> Path:
    """A directory for PATH whose `tools` find `held`, bytes by type."""
    content_path, programs = directory / "held", directory / "programs"
    for path in (content_path, programs):
        path.mkdir(parents=True, exist_ok=True)
    for kind, data in held.items():
        (content_path / kind.replace("/", "+")).write_bytes(data)
    for tool in tools:
        program = programs / tool
        program.write_text(_XCLIP.format(python=sys.executable, kept=str(content_path)))
        program.chmod(0o755)
    return programs
