"""This installation: its source, and the commands that update or extend it.

The name `agent-tui` on the package index belongs to another program, so no command or text of this program installs by
that name: each names the checkout or the wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from core.records import parse_json

UNKNOWN: Final = "CHECKOUT-OR-WHEEL"  # the user has to insert the path


def describe_update() -> str:
    """Return the command that updates this installation, and the one that removes it."""
    root = Path(__file__).resolve().parents[1]
    if (root / ".git").exists():
        return f"git pull in {root}, then make run"
    remove = " ".join((*_choose_program()[:-1], "uninstall", "agent-tui"))
    return f"{_build_command(_find_source())} (to remove it: {remove})"


def describe_extra(extra: str) -> str:
    """Return the command that installs the packages of an extra."""
    root = Path(__file__).resolve().parents[1]
    if (root / ".git").exists():
        return f"{sys.executable} -m pip install -e '{root}[{extra}]'"
    return _build_command(f"{_find_source()}[{extra}]")


def _build_command(source: str) -> str:
    program = _choose_program()
    return f"{' '.join(program)} {'--upgrade' if 'pip' in program else '--force'} '{source}'"


def _choose_program() -> tuple[str, ...]:
    parts = Path(sys.prefix).parts
    if "pipx" in parts:
        return ("pipx", "install")
    if "uv" in parts and "tools" in parts:
        return ("uv", "tool", "install")
    return (sys.executable, "-m", "pip", "install")


def _find_source() -> str:
    """Return the path of the source as recorded by the installer."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = parse_json(distribution("agent-tui").read_text("direct_url.json") or "{}")
        url = urlsplit(str(origin.get("url", "")))
    except (PackageNotFoundError, ValueError, AttributeError):
        return UNKNOWN
    return unquote(url.path) if url.scheme == "file" and url.path else UNKNOWN
