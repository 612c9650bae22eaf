"""Writes `docs/man/agent-tui.1` from the parsers of the command line: `python docs/dev/tools/man_page.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
TARGET: Final = ROOT / "docs" / "man" / "agent-tui.1"
HEAD: Final = '.\\" Made from the parsers of the program by docs/dev/tools/man_page.py\n'


def page() -> str:
    """The whole page, in roff. It has no date and no version, so that it changes with the parsers alone."""
    from argparse_manpage.manpage import Manpage

    from core.cli.completion import build_parser_tree

    root = build_parser_tree()
    epilog, root.epilog = root.epilog or "", None
    data = {
        "date": " ",
        "description": "terminal chat IDE whose agent edits in a shadow of the project",
        "manual_title": "agent-tui",
        "manual_section": 1,
    }
    text = str(Manpage(root, _data=data, format="single-commands-section"))
    text = re.sub(r"(?s)^\.SH SYNOPSIS\n.*?(?=^\.SH )", lambda _: _render_synopsis(root.usage or ""), text, flags=re.M)
    text = re.sub(r"[ \t]+$", "", text, flags=re.M).replace(".SH POSITIONAL ARGUMENTS\n", ".SH COMMANDS\n")
    return HEAD + text.rstrip() + "\n" + "".join(map(_render_section, re.split(r"\n\n(?=[a-z ]+:\n)", epilog)))


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^(?=[.'])", r"\\&", escaped)


def _render_synopsis(usage: str) -> str:
    return f".SH SYNOPSIS\n.nf\n{_escape(usage)}\n.fi\n"


def _render_section(text: str) -> str:
    """A section of the help's end, as it stands there: a heading, and lines below it."""
    head, _, body = text.strip("\n").partition(":\n")
    return f".SH {head.upper()}\n.nf\n{_escape(body)}\n.fi\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page(), encoding="utf-8")
