"""This installation: its source, and the commands that update or extend it.

The distribution is called `agent-tui-ide`, since `agent-tui` on the package index is another program. It is not
published yet, so each command names the checkout or the wheel that this installation was made from.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from core.records import parse_json

NAME: Final = "agent-tui-ide"
UNKNOWN: Final = "CHECKOUT-OR-WHEEL"  # the user has to insert the path


def describe_update() -> str:
    """Return the command that updates this installation, and the one that removes it."""
    update, remove = list_update_commands()
    return f"{update} (to remove it: {remove})" if remove else update


def list_update_commands() -> tuple[str, str]:
    """Return what updates this installation and what removes it; a checkout has nothing to remove, so ""."""
    root = Path(__file__).resolve().parents[1]
    if (root / ".git").exists():
        return f"git pull in {root}, then make run", ""
    return _build_command(_find_source()), " ".join((*_choose_program()[:-1], "uninstall", NAME))


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
        origin = parse_json(distribution(NAME).read_text("direct_url.json") or "{}")
        url = urlsplit(str(origin.get("url", "")))
    except (PackageNotFoundError, ValueError, AttributeError):
        return UNKNOWN
    return unquote(url.path) if url.scheme == "file" and url.path else UNKNOWN
