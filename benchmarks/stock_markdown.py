"""The other yardstick: a stock Textual app that streams words into a Markdown widget, once Enter is pressed.

`python stock_markdown.py COUNT RATE`: RATE in words per second, 0 = at once. No model, no network: its best case.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Input, Markdown

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.words import END, words


class StockMarkdown(App[None]):
    def __init__(self, count: int, rate: float) -> None:
        super().__init__()
        self._count, self._rate = count, rate

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Markdown()
        yield Input()

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.query_one(VerticalScroll).anchor()

    def on_input_submitted(self) -> None:
        self.run_worker(self._stream())

    async def _stream(self) -> None:
        loop = asyncio.get_running_loop()
        stream = Markdown.get_stream(self.query_one(Markdown))
        begun = loop.time()
        for number, word in enumerate([*words(self._count), f"\n\n{END}"]):
            if self._rate:
                await asyncio.sleep(max(0.0, begun + number / self._rate - loop.time()))
            await stream.write(word)
        await stream.stop()


if __name__ == "__main__":
    StockMarkdown(int(sys.argv[1]), float(sys.argv[2])).run()
