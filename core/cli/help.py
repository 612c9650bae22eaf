"""`agent-tui help`: print a page of the installed manual, or the list of its pages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from core.arguments import Arguments, Front
from core.cli.parsing import build_parser
from core.config.manual import find_page, list_pages, read_title, render_page
from core.exits import ExitCode
from core.text.display_names import to_one_line

HELP_USAGE: Final = "agent-tui help [TOPIC]"

HELP_TEXT: Final = """\
Print a page of the manual as Markdown: by its name (review), the beginning of
it (settings) or a word of it (skills). Without TOPIC, list the pages. On the
screen, /help shows the same."""

HELP_CODES: Final = """\
exit codes:
  0   done
  2   there is no such page"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpArguments(Arguments):
    """`topic` "" = the list of pages."""

    front: ClassVar[Front] = "help"
    topic: str = ""


def parse(argv: Sequence[str]) -> HelpArguments:
    """Parse the arguments of `agent-tui help`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui help", HELP_USAGE, HELP_TEXT, HELP_CODES)
    parser.add_argument("topic", nargs="*", metavar="TOPIC", help="a page, such as review or settings")
    return HelpArguments(directory=Path.cwd(), topic=" ".join(parser.parse_args(argv).topic))


def run(arguments: HelpArguments) -> int:
    """Print the page or the list. A topic without a page is a wrong argument."""
    if not arguments.topic:
        sys.stdout.write(format_list())
        return ExitCode.DONE
    page = find_page(arguments.topic)
    if not page:
        names = ", ".join(list_pages())
        sys.stderr.write(f"The manual has no page about {to_one_line(arguments.topic)!r}. It has {names}.\n")
        return ExitCode.USAGE
    sys.stdout.write(render_page(page).replace("`/help ", "`agent-tui help "))
    return ExitCode.DONE


def format_list() -> str:
    """Return a line for every page: the name that it is asked for by, and its heading."""
    width = max(map(len, list_pages()))
    return "".join(f"{name:<{width}}  {read_title(name)}\n" for name in list_pages())
