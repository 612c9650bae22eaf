"""The loops of a session as the events tell it: prompts that the program sends again, and how a user writes one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from core.patterns import compile_lazily
from core.protocol import events as ev
from core.state.goals import unquote
from core.text.counting import count

DEFAULT_RUNS: Final = 100
MAX_RUNS: Final = 1_000
MIN_SECONDS: Final = 10
MAX_SECONDS: Final = 7 * 24 * 3600
RESTART_SECONDS: Final = 60  # after which the command of a monitor runs again, if no interval is given
USAGE: Final = "Write /loop 10m PROMPT; --when COMMAND and --prints TEXT send it only when the command prints that."
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN: Final = r"\d{1,6}\s*(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
_INTERVAL: Final = compile_lazily(_SPAN, re.IGNORECASE)
_DURATION: Final = compile_lazily(r"(\d{1,6})\s*([smhd])[a-z]*")
_WISH: Final = compile_lazily(
    rf"(?:(?P<first>{_SPAN})\s+)?(?P<prompt>(?!--).+?)(?:\s+every\s+(?P<last>{_SPAN}))?"
    r"(?:\s+--when\s+(?P<command>.+?))?(?:\s+--prints\s+(?P<pattern>.+?))?(?:\s+--runs\s+(?P<runs>\d{1,6}))?",
    re.DOTALL | re.IGNORECASE,
)


class LoopWish(NamedTuple):
    """A loop as the user writes it; `runs` 0: as many as usual. `pattern` "" = any line of `command` counts."""

    prompt: str
    seconds: int
    command: str = ""
    pattern: str = ""
    runs: int = 0


@dataclass(slots=True, kw_only=True)
class LoopState:
    """A loop that goes on, with the number of its runs so far; `started` and `last_run` in ms, 0 = it has not run."""

    loop: ev.LoopStarted
    started: int = 0
    runs: int = 0
    last_run: int = 0


def parse_duration(text: str) -> int | None:
    """Parse `90s`, `10m`, `2 hours` or `1d`; None: it is none, or not from 10 seconds to 7 days."""
    match = _DURATION.fullmatch(text.strip().lower()) if _INTERVAL.fullmatch(text.strip()) else None
    if match is None:
        return None
    seconds = int(match[1]) * _UNITS[match[2]]
    return seconds if MIN_SECONDS <= seconds <= MAX_SECONDS else None


def parse_loop(text: str) -> LoopWish | None:
    """Parse what follows `/loop`: the interval comes first or, as in `every 2 hours`, after the prompt. None: there is
    no prompt, or no interval of a valid length (which a loop with `--when` need not have)."""
    match = _WISH.fullmatch(text.strip())
    if match is None:
        return None
    span, command = match["first"] or match["last"] or "", match["command"] or ""
    seconds = parse_duration(span) if span else RESTART_SECONDS if command else None
    if seconds is None or (match["pattern"] and not command):
        return None
    pattern = unquote(match["pattern"] or "")
    return LoopWish(match["prompt"].strip(), seconds, unquote(command), pattern, int(match["runs"] or 0))


def format_interval(seconds: int) -> str:
    """Format an interval in its largest whole unit: `10 minutes`."""
    units = ((86_400, "day"), (3600, "hour"), (60, "minute"))
    size, name = next((unit for unit in units if not seconds % unit[0]), (1, "second"))
    return name if seconds == size and size > 1 else count(name, seconds // size)


def describe_loop(loop: ev.LoopStarted) -> str:
    """Describe when the prompt of a loop is sent: `every 10 minutes`, `when \\`COMMAND\\` prints "TEXT"`."""
    if not loop.command:
        return f"every {format_interval(loop.seconds)}"
    words = f'"{loop.pattern}"' if loop.pattern else "something"
    return f"when `{loop.command}` prints {words}"


def format_loop(event: ev.LoopStarted | ev.LoopEnded) -> str:
    """Format the start or the end of a loop as a sentence or two."""
    if isinstance(event, ev.LoopEnded):
        return f"{event.id} has ended. {event.message}".rstrip()
    times = f"at most {count('time', event.max_runs)}"
    return f"{event.id}: the prompt is sent {describe_loop(event)}, {times}."


def list_loops(loops: Iterable[LoopState]) -> str:
    """List loops for the user, one per line; "" = there are none."""
    lines = []
    for loop_state in loops:
        loop, runs = loop_state.loop, count("run", loop_state.runs)
        lines.append(f"{loop.id}, {describe_loop(loop)}, {runs} so far: {' '.join(loop.prompt.split())}")
    return "\n".join(lines)
