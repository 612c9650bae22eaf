"""One program of the model in a box, whose calls of tools go through the gate.

The program runs over the project as the agent sees it when it starts, in an empty directory of its own, without a layer
and without a network: whatever it writes itself is dropped, so that files change by its calls alone. Its first standard
output carries calls, its standard input their answers (`core/sandbox/inside/program_driver.py`). Both are in the
program's hands, so nothing here trusts them: every line that is a call goes to the gate, and any other line ends the
program.

The time limit counts the program's own time. It stands still while a call is answered, which has limits of its own, and
may wait for the user.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.clock import monotonic
from core.errors import ToolFailed
from core.records import convert, parse_json
from core.sandbox.box import BoxLimits, BoxResult, RunningCommand
from core.sandbox.results import CommandResult
from core.secrets import list_masked_values
from core.shell.command_host import get_memory_limit
from core.shell.long_output import SECRETS_HIDDEN, CommandOutput
from core.shell.masked_output import MaskedOutput
from core.shell.python_repl import BOOTSTRAP
from core.shell.terminal import Terminal
from core.text.counting import count
from core.workspace.secret_files import find_secret_values

DRIVER_FILE: Final = Path(__file__).parents[1] / "sandbox" / "inside" / "program_driver.py"
START_SECONDS: Final = 30.0  # that an interpreter has to begin
MAX_CALLS: Final = 200  # of one program
MAX_TOGETHER: Final = 8  # calls that run at the same time
MAX_NOTES: Final = 5  # on what is missing in the results of calls
MAX_LINE: Final = 8_000_000  # characters of one call
MAX_OUTPUT: Final = 64 << 20  # bytes of its calls and of what it prints
NO_BOX: Final = "Programs can't be sandboxed on this machine, so none runs. Call the tools one by one."
TOO_MANY: Final = f"This program has made {MAX_CALLS} calls, and may make no more."
FORGED: Final = "it wrote something to its calls that is no call"
_COMMAND: Final = f'exec "${{VIRTUAL_ENV:+$VIRTUAL_ENV/bin/}}python3" -I -X utf8 -u -c {shlex.quote(BOOTSTRAP)}'


class ProgramCall(Struct, frozen=True):
    """One call of a program: the name that it used, and its arguments as JSON."""

    tool: str
    arguments: str


class ProgramAnswer(Struct, frozen=True):
    """The answer to a call: plain data, or the text of an error. `note`: what is missing in the data, for the model."""

    value: Any = None
    error: str = ""
    note: str = ""


CallTools = Callable[[Sequence[ProgramCall]], Awaitable[Sequence[ProgramAnswer]]]


class _Order(Struct, frozen=True):
    id: int
    tool: str
    arguments: dict[str, Any]


class ProgramRun:
    """The run of one program. `name`: of the file for long output; `on_output` gets pieces of what it prints."""

    def __init__(self, terminal: Terminal, name: str, call_tools: CallTools, on_output: Callable[[str], None]) -> None:
        self._terminal, self._call_tools = terminal, call_tools
        self._output = CommandOutput(terminal.host.directory, name)
        self._printed = MaskedOutput(self._output, on_output)
        self._buffer = ""
        self._orders: list[_Order] = []
        self._arrival = asyncio.Event()
        self._has_begun = self._is_forged = False
        self._names: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._notes: dict[str, None] = {}

    @property
    def call_count(self) -> int:
        """The number of its calls so far."""
        return self._names.total()

    async def run(self, code: str, parameters: Mapping[str, Sequence[str]], *, time_limit: float) -> CommandResult:
        """Run a program to its end. `parameters`: the names of the arguments of every tool, by its name.

        Cancelling stops it. Raises `ToolFailed` if it can't be started; then no part of it ran."""
        started = monotonic()
        running = await self._start()
        running.send(base64.b64encode(DRIVER_FILE.read_bytes()) + b"\n")
        order = json.dumps({"code": code, "tools": parameters})
        running.send(base64.b64encode(order.encode()) + b"\n")
        try:
            timed_out = await self._serve(running, time_limit)
            box_result = await (running.stop() if timed_out or self._is_forged else running.wait())
        except BaseException:
            self._terminal.finish_in_background(running.stop())
            raise
        finally:
            self._output.close()
        return self._build_result(box_result, round((monotonic() - started) * 1000), timed_out=timed_out)

    async def _start(self) -> RunningCommand:
        host = self._terminal.host
        box = await host.box.find()
        if box is None or not box.tier.is_contained:
            raise ToolFailed(NO_BOX)
        await self._mask_secrets()
        limits = BoxLimits(seconds=None, memory=get_memory_limit(), output=MAX_OUTPUT)
        lowers = host.shadow.prepare_lowers()
        await host.shadow.dates.wait()
        request = await host.build_passing_request(_COMMAND, lowers=lowers, cwd=".", limits=limits, is_piped=True)
        return await box.start(replace(request, raw=True), self._take_calls, self._printed.feed)

    async def _mask_secrets(self) -> None:
        """Mask the values of secret files in what it prints, as in the output of a command."""
        host = self._terminal.host
        withheld = await asyncio.to_thread(host.withheld)
        paths = (*withheld.covered, *withheld.masked)
        values = await asyncio.to_thread(find_secret_values, host.workspace.root, paths)
        self._printed.mask((*values, *list_masked_values()))

    def _take_calls(self, text: str) -> None:
        """Take in calls, which are complete lines."""
        if self._is_forged:
            return
        *lines, self._buffer = (self._buffer + text).split("\n")
        self._has_begun = self._has_begun or bool(lines)
        try:
            self._orders += [convert(parse_json(line), _Order) for line in lines if line]
        except (msgspec.ValidationError, ValueError, RecursionError):
            self._is_forged = True
        self._is_forged = self._is_forged or len(self._buffer) > MAX_LINE
        self._arrival.set()

    async def _serve(self, running: RunningCommand, time_limit: float) -> bool:
        """Answer calls until the program ends. Returns True if its time was over."""
        ending = asyncio.ensure_future(running.wait())
        left, is_timed = START_SECONDS, False
        try:
            while not self._is_forged:
                before = monotonic()
                arrival = asyncio.ensure_future(self._arrival.wait())
                try:
                    await asyncio.wait({ending, arrival}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    arrival.cancel()
                left -= monotonic() - before
                if self._has_begun and not is_timed:
                    left, is_timed = time_limit, True
                if ending.done():
                    return False
                if left <= 0:
                    return True
                while self._orders and not ending.done():
                    together, self._orders = self._orders[:MAX_TOGETHER], self._orders[MAX_TOGETHER:]
                    await self._answer(running, together)
                self._arrival.clear()
            return False
        finally:
            ending.cancel()

    async def _answer(self, running: RunningCommand, orders: Sequence[_Order]) -> None:
        allowed = orders[: max(MAX_CALLS - self.call_count, 0)]
        calls = [ProgramCall(order.tool, json.dumps(order.arguments)) for order in allowed]
        self._names.update(call.tool for call in calls)
        answers = list(await self._call_tools(calls)) if calls else []
        self._failures.update(call.tool for call, answer in zip(calls, answers, strict=True) if answer.error)
        self._notes.update(dict.fromkeys(answer.note for answer in answers if answer.note))
        answers += [ProgramAnswer(error=TOO_MANY)] * (len(orders) - len(allowed))
        for order, answer in zip(orders, answers, strict=True):
            content = {"error": answer.error} if answer.error else {"value": answer.value}
            with suppress(OSError):  # It has ended.
                running.send(json.dumps({"id": order.id, **content}).encode() + b"\n")

    def _build_result(self, box_result: BoxResult, duration_ms: int, *, timed_out: bool) -> CommandResult:
        self._printed.finish()
        ended = "timed_out" if timed_out else box_result.end_reason
        hidden = (SECRETS_HIDDEN,) if self._printed.has_masked else ()
        return CommandResult(
            exit_code=None if timed_out or self._is_forged else box_result.exit_code,
            output=self._output.render_text(),
            duration_ms=duration_ms,
            timed_out=timed_out,
            truncated=self._output.is_clipped,
            ended=FORGED if self._is_forged else ended,
            effects=self.describe_calls(),
            notes=(*list(self._notes)[:MAX_NOTES], *hidden, *box_result.notes),
            spilled_path=self._output.spilled_path,
        )

    def describe_calls(self) -> str:
        """Describe its calls: `41 calls: read_file 40, search_replace 1 (1 failed)`; "no call" if it made none."""
        if not self._names:
            return "no call"
        parts = [
            f"{name[:60]} {n}{f' ({self._failures[name]} failed)' if self._failures[name] else ''}"
            for name, n in self._names.most_common()
        ]
        return f"{count('call', self.call_count)}: {', '.join(parts)}"
