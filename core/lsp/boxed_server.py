"""A language server in the box: over the merged view, with pipes, and nothing of what it writes stays.

Its standard error is kept for the one line that says why it ended.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

from core.errors import ToolFailed
from core.lsp.server_table import FoundServer
from core.sandbox.box import BoxLimits, RunningCommand
from core.shell.command_host import CommandHost
from core.shell.execution import get_memory_limit

_LONGEST_ERRORS: Final = 2_000
_UNBOUNDED: Final = 1 << 50  # the client ends what floods


class ServerErrors:
    """The end of what a server wrote on standard error."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        self._text = (self._text + text)[-_LONGEST_ERRORS:]

    def describe(self) -> str:
        """Return its last line, "" = it wrote nothing."""
        lines = [line.strip() for line in self._text.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""


def format_command(server: FoundServer) -> str:
    """The command as a rule of the user would speak of it."""
    return shlex.join(server.spec.command)


async def start_in_box(
    host: CommandHost, server: FoundServer, on_output: Callable[[str], None], errors: ServerErrors
) -> RunningCommand:
    """Start a server. `on_output` gets its bytes as PEP 383 has them. Raises `ToolFailed` if it can't be started."""
    box = await host.box.find()
    if box is None or not box.tier.can_run_unasked:
        raise ToolFailed("nothing on this machine holds a command well enough to run it unasked")
    request = await host.build_passing_request(
        f"exec {shlex.join((server.program, *server.spec.command[1:]))}",
        lowers=host.shadow.prepare_lowers(),
        cwd=server.directory,
        limits=BoxLimits(seconds=None, memory=get_memory_limit() // 2, output=_UNBOUNDED),
        is_piped=True,
    )
    return await box.start(request, on_output, errors.add)
