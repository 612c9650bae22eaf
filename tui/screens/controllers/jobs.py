"""The controller of background commands and of the ports at which they listen."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from contextlib import suppress
from typing import Final

from core.protocol import commands, queries
from core.protocol.events import OpenPort
from tui.dialogs.pages import ConfirmDialog
from tui.screens.controller import Controller, in_worker

OPEN_SECONDS: Final = 5.0  # until a port is forwarded
OPEN_NOTE: Final = "Every program on this machine reaches it then, as if the server ran here. Nothing else is opened."


class JobController(Controller):
    """Shows background commands and ports, and opens ports in the user's browser."""

    def action_show_jobs(self, job: str = "") -> None:
        jobs = self.context.state.jobs
        if job == "all" or job in jobs:
            self.context.submit_soon(commands.JobStop(job="" if job == "all" else job))
            return
        self._watch_jobs()

    @in_worker("picker")
    async def _watch_jobs(self) -> None:
        """Show the jobs with their output and changes until the user leaves."""
        jobs = await self._load_jobs()
        if not jobs:
            self.context.notify_user("No background commands.")
            return
        from tui.dialogs.listings.jobs import JobActions, JobsDialog

        actions = JobActions(stop=self._stop_job, take=self._take_in, restart=self._restart_job)
        await self.context.ask(JobsDialog(jobs, self._load_jobs, actions))

    async def _load_jobs(self) -> tuple[queries.JobInfo, ...]:
        answer = await self.context.query(queries.JobsQuery(), queries.JobsAnswer)
        return answer.jobs if answer is not None else ()

    def _stop_job(self, job: str) -> None:
        if job in self.context.state.jobs:
            self.context.submit_soon(commands.JobStop(job=job))

    def _take_in(self, job: str) -> None:
        self.context.submit_soon(commands.JobAbsorb(job=job))

    def _restart_job(self, job: str) -> None:
        self.context.submit_soon(commands.JobRestart(job=job))

    # Ports

    def action_show_ports(self, argument: str = "") -> None:
        """Show the ports, or open the one that was named."""
        if argument.strip().isdigit():
            self._open_port(int(argument))
            return
        from tui.dialogs.listings.ports import PortsDialog

        self.context.show(PortsDialog(self._list_ports, self._open_port, self._close_port))

    def _list_ports(self) -> tuple[OpenPort, ...]:
        return self.context.state.ports

    def _find_address(self, port: int) -> str:
        return next((open_port.address for open_port in self._list_ports() if open_port.port == port), "")

    def _close_port(self, port: int) -> None:
        self.context.submit_soon(commands.PortClose(port=port))

    @in_worker("ports", exclusive=False)
    async def _open_port(self, port: int) -> None:
        """Open a port in the user's browser; the first time after a yes."""
        if not self._find_address(port):
            question = f"Forward port {port} of the sandbox to this machine?"
            if not await self.context.ask(ConfirmDialog(question, "forward and open", explanation=OPEN_NOTE)):
                return
            if not await self.context.submit(commands.PortOpen(port=port)):
                return
        await self.context.wait_until(lambda: self._find_address(port), seconds=OPEN_SECONDS)
        address = self._find_address(port)
        if address and not await asyncio.to_thread(open_in_browser, address):
            self.context.notify_user(f"Open {address}", explain_address(address))


def open_in_browser(address: str) -> bool:
    """Open a page in the user's browser. False: there is none on this machine that the user could look at."""
    has_display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if is_remote() or not has_display:
        return False
    with suppress(webbrowser.Error, OSError):
        return webbrowser.open(address)
    return False


def is_remote() -> bool:
    """True if the user sits at another machine."""
    return bool(os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"))


def explain_address(address: str) -> str:
    """Explain how a user at another machine reaches an address of this one; "" = there is nothing to explain."""
    port = address.rpartition(":")[2]
    return f"From your own machine: ssh -L {port}:localhost:{port} HOST" if is_remote() else ""
