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

Written by `make bench`; `make bench ARGS='echo --quick'` runs a part. Every number comes from one run on one machine,
so compare the ratios rather than the seconds: they hold on other machines, too.

Last run: Python {python}, Textual {textual}, {cores} cores.

{table}

## How it is measured

- **On a pseudo-terminal of 120 × 40 cells**, as a user runs it: the program is started with `exec`, keys are written
  to the terminal, and its output is read without the escape sequences. The model is a server on the loopback interface
  that streams in the provider's format, so the official SDKs do their full work.
- **CPU and memory are those of all processes** of the program (screen and engine): user and system time together, and
  resident memory with shared pages counted once (PSS). The model server does not count.
- **Start**: from `exec` until a letter, typed every 20 ms, shows. Medians. The yardstick, a Textual app with one
  `Input`, is started alternately with agent-tui, so that a busy moment of the machine affects both.
- **Echo**: from writing a key to reading its letter, keys 60 to 100 ms apart at random, 95th percentiles.
- **Streams**: from Enter until the last word shows. The yardstick is a Textual app with the stock `Markdown` widget
  and its stream, which produces the words itself: no model, no network, no second process. A token is five characters.
  The last token of a short answer is timed from when the server has written it until it shows, just after a prompt.
- **Idle**: nothing is typed and nothing runs, after the engine has imported the SDK in use.
- **Headless**: the wall time of the whole process, compared with a ten-line script that uses the plain SDK. The
  engine's part of a tool step is the time between the end of one answer and the next request, as the server sees it:
  it includes SDK, tool, log and gate, but not the server's own time.
- **Background agents**: a worker is a process, the model a script, the PostgreSQL a real one on loopback (`fsync` off).
  Timed from when an agent is queued until a worker has it, one after the other. Memory is that of a worker and all it
  started, with shared pages split among their users. Left out where no PostgreSQL is installed.
- **Panes** run in one process on a screen without a terminal; each step draws a full frame.
- **Prompts** are counted, not timed: in tokens of OpenAI's current models, with the longest of the edit formats. The
  tools that come with a mode are described in its reminder and not counted here.
- **Replay** writes a log, reads it with its checksums, and folds it as the engine and as the screen do.
"""


def write_page(results: Sequence[Result]) -> Path:
    """Returns where the page is, below the project's root."""
    facts = {"python": platform.python_version(), "textual": version("textual"), "cores": os.cpu_count()}
    PAGE.write_text(TEXT.format(table=markdown(results), **facts), "utf-8")
    return PAGE.relative_to(PAGE.parent.parent)
