"""The yardstick: the smallest Textual app that one can type into."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Input


class BareApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Input()


if __name__ == "__main__":
    BareApp().run()
