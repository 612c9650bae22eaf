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
    text = re.sub(r"[ \t]+$", "", text, flags=re.M)
    start, _, rest = text.partition(".SH\nPOSITIONAL ARGUMENTS\n")
    subcommands, heading, options = rest.partition(".SH SESSION\n")
    commands, *others = map(_render_section, re.split(r"\n\n(?=[a-z ]+:\n)", epilog))
    details = ".SH DETAILS OF COMMANDS\n" + _render_subcommands(subcommands)
    return HEAD + f"{start}{heading}{options.rstrip()}\n{commands}{details}" + "".join(others)


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^(?=[.'])", r"\\&", escaped)


def _render_synopsis(usage: str) -> str:
    lines = usage.replace("\n       ", "\n")
    return f".SH SYNOPSIS\n.nf\n{_escape(lines)}\n.fi\n"


def _render_subcommands(text: str) -> str:
    """The sections of the subcommands with their usage and lists line by line, and without the summary of each, which
    its description begins with."""
    text = re.sub(r"(?s)(^\.SS [^\n]+\n)[^\n]*\n\n(?=usage: )", r"\1", text, flags=re.M)
    text = re.sub(
        r"(?s)^usage: (.*?)\n\n", lambda usage: _keep_lines(usage[1].replace("\n       ", "\n")), text, flags=re.M
    )
    lists = r"(?:^  [^\n]*\n)+"
    return re.sub(lists, lambda rows: _keep_lines(rows[0].rstrip("\n")), text, flags=re.M).rstrip() + "\n"


def _keep_lines(text: str) -> str:
    """A part of the page that is not filled, and the blank line behind it."""
    return f".nf\n{text}\n.fi\n\n"


def _render_section(text: str) -> str:
    """A section of the help's end, as it stands there: a heading, and lines below it."""
    head, _, body = text.strip("\n").partition(":\n")
    return f".SH {head.upper()}\n.nf\n{_escape(body)}\n.fi\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page(), encoding="utf-8")
