"""docs/dev/performance.md: the table and how it came about."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.table import Result, markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "dev" / "performance.md"

TEXT = """\
# Performance

Made by `make bench`; `make bench ARGS='echo --quick'` runs a part of it. Every number was measured in one run on one
machine, so compare the ratios rather than the seconds: they hold on other machines, too.

Last run: Python {python}, Textual {textual}, {cores} cores.

{table}

## How it is measured

- **On a pseudo-terminal of 120 × 40 cells**, as a user meets it: the program is started with `exec`, keys are written
  to the terminal, what comes back is read and looked at with its escape sequences taken out. The model is a server on
  the loopback interface that streams in the dialect of the provider, so the official SDKs do all they do in earnest.
- **CPU and memory are those of all processes** of the program (screen and engine), user and system time together;
  memory is what they hold resident, a page that several share counted once (PSS). The model server does not count.
- **Start**: from `exec` until a letter shows that is typed every 20 ms. Medians; the yardstick, a Textual app with
  one `Input`, is started in turns with ours, so that a busy moment of the machine meets both.
- **Echo**: from writing the key to reading its letter, keys 60 to 100 ms apart at random, 95th percentiles.
- **Streams**: from Enter until the last word shows. The yardstick is a Textual app with the stock `Markdown` widget
  and its stream, which makes its words itself: no model, no network, no second process. Tokens are five characters.
  The last token of a short answer is timed from when the server has written it until it shows, just after a prompt.
- **Idle**: nothing is typed and nothing runs, after the engine has imported the SDK in use.
- **Headless**: the wall time of the whole process, beside a script of ten lines with the plain SDK. The engine's part
  of a tool step is the time between the end of one answer and the next request, as the server sees it: the SDK, the
  tool, the log and the gate are in it, the server's own time is not.
- **Background agents**: a worker is a process, the model a script, the PostgreSQL a real one on loopback (`fsync` off).
  From the time at which an agent was queued to that at which a worker has it, one after the other. Memory is that of
  a worker and all it started, shared pages split among those who share them. Left out where no PostgreSQL is installed.
- **Panes** run in one process on a screen without a terminal; a frame is drawn in full for each step.
- **Prompts** are counted, not timed: in tokens of OpenAI's current models, with the longest of the edit formats. The
  tools that come with a mode are told in its reminder and not counted here.
- **Replay** writes a log, reads it with its check sums, and folds it as the engine and as the screen do.
"""


def write_page(results: Sequence[Result]) -> Path:
    """Returns where the page is, below the project's root."""
    facts = {"python": platform.python_version(), "textual": version("textual"), "cores": os.cpu_count()}
    PAGE.write_text(TEXT.format(table=markdown(results), **facts), "utf-8")
    return PAGE.relative_to(PAGE.parent.parent)
