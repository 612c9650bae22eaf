"""The driver of a screen in a web page: keys arrive as packets on standard input, frames leave on standard output.

The parent process is the terminal, so the screen ends when either pipe is closed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any

from textual.drivers._byte_stream import BytePacket, ByteStream
from textual.drivers.web_driver import WebDriver, _ExitInput
from textual.message import Message

from tui.terminal.exit_signals import EXIT_INTERRUPTED
from tui.terminal.input_parser import InputParser


class PageDriver(WebDriver):
    """A driver that ends the app when its page is gone, where Textual's would wait forever."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        self._is_gone = False
        self._write: Any = self._write_all

    def _write_all(self, data: bytes) -> None:
        """Write a whole packet; a pipe accepts a part of a large one."""
        remainder = memoryview(data)
        while remainder and not self._is_gone:
            try:
                remainder = remainder[os.write(self.fileno, remainder) :]
            except OSError:
                self._exit_app()

    def _exit_app(self) -> None:
        self._is_gone = True
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._app.call_later(self._app.exit, return_code=EXIT_INTERRUPTED)

    def run_input_thread(self) -> None:
        """Process packets until the app ends or the pipe is closed. Invalid packets are skipped."""
        parser, packets = InputParser(), ByteStream()
        for data in self._input_reader:
            for packet in packets.feed(data) if data else ():
                self._take_packet(BytePacket(*packet), parser)
            self._process(parser.tick())
        if not self.exit_event.is_set():
            self._exit_app()

    def _take_packet(self, packet: BytePacket, parser: InputParser) -> None:
        """Process keys, or the page's size and focus."""
        if packet.type == "D":
            self._process(parser.feed(packet.payload))
            return
        with contextlib.suppress(ValueError, KeyError, TypeError, _ExitInput):
            self._on_meta(packet.type, packet.payload)

    def _process(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.process_message(message)
