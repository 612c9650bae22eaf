"""The first run: what was found to work with, and the ways on. Enter takes the first of them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.commands import ProviderConfigure
from core.protocol.queries import Models
from tui.bridge import Wish
from tui.screens.dialog import Dialog
from tui.text import clean, one_line

Answer = Wish | ProviderConfigure


class Welcome(Dialog[Answer | None]):
    """Answers a `Wish` (a model, or the demo), a `ProviderConfigure` with a pasted key, or None to leave."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="welcome.back", tooltip="Back to the list"),
        Binding("ctrl+q", "leave", "Quit", id="welcome.leave", tooltip="Leave agent-tui", priority=True),
    ]

    def __init__(self, models: Models, wish: Wish) -> None:
        super().__init__()
        self._models, self._wish = models, wish
        self._provider = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog welcome"):
            yield Static(Content.assemble(("agent-tui", "bold $accent")), classes="dialog-title")
            yield Static(
                Content(
                    "A chat IDE whose agent works in a shadow of your project:\n"
                    "nothing reaches your files until you accept it, hunk by hunk."
                ),
                classes="welcome-law",
            )
            yield Static(id="welcome-found")
            yield OptionList(compact=True, id="welcome-ways")
            yield Input(password=True, compact=True, id="welcome-key", placeholder="paste the key, then enter")
            yield Static(id="welcome-hint")

    def on_mount(self) -> None:
        self.query_one("#welcome-key", Input).display = False
        self.show_models(self._models)
        self.query_one("#welcome-ways").focus()

    def show_models(self, models: Models) -> None:
        """What was found; called again when the search of local servers has ended."""
        self._models = models
        self.query_one("#welcome-found", Static).update(self._found())
        ways = self.query_one("#welcome-ways", OptionList)
        options = [
            Option(Content.assemble("Take the demo", ("   a scripted model, no key", "$foreground 60%")), id="demo")
        ]
        if models.models:
            label = Content.assemble("Choose a model", (f"   {len(models.models)} found", "$foreground 60%"))
            options.insert(0, Option(label, id="pick"))
        for provider in models.providers:
            if not provider.local:
                options.append(
                    Option(Content(f"Paste a key for {one_line(provider.label, 40)}"), id=f"key:{provider.id}")
                )
        options.append(Option(Content("Leave"), id="leave"))
        ways.set_options(options)
        ways.highlighted = 0

    def _found(self) -> Content:
        parts: list[tuple[str, str]] = []
        for provider in self._models.providers:
            usable = bool(provider.key) or (provider.local and not provider.problem)
            what = provider.problem or provider.key or provider.base_url or "no key found"
            parts.append(("✓ " if usable else "· ", "$success" if usable else "$foreground 60%"))
            parts.append((one_line(provider.label, 30).ljust(22), "" if usable else "$foreground 60%"))
            parts.append((f"{one_line(clean(what), 60)}\n", "$foreground 60%"))
        return (
            Content.assemble(*parts)
            if parts
            else Content.assemble(("Nothing was found to work with yet.\n", "$foreground 60%"))
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        match event.option.id:
            case "demo":
                self.give(Wish(demo=True, mode=self._wish.mode))
            case "pick":
                self._pick()
            case "leave":
                self.give(None)
            case str(way):
                self._ask_for_key(way.removeprefix("key:"))

    def _pick(self) -> None:
        from tui.screens.picker import Choice, Picker

        choices = [Choice(each.id, each.id, each.source) for each in self._models.models]
        _ = self.app.push_screen(Picker("Choose a model", choices), self._picked)

    def _picked(self, model: str | None) -> None:
        if model:
            self.give(Wish(model=model, mode=self._wish.mode))

    def _ask_for_key(self, provider: str) -> None:
        self._provider = provider
        key = self.query_one("#welcome-key", Input)
        key.cursor_blink = False
        key.value, key.display = "", True
        key.focus()
        text = "It is kept in the keyring, else in a file that only you can read. Escape goes back."
        self.query_one("#welcome-hint", Static).update(Content.assemble((text, "$foreground 60%")))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        key = event.value.strip()
        if key:
            self.give(ProviderConfigure(provider=self._provider, key=key))

    def action_back(self) -> None:
        """From the key back to the list."""
        self.query_one("#welcome-key", Input).display = False
        self.query_one("#welcome-hint", Static).update("")
        self.query_one("#welcome-ways").focus()

    def action_leave(self) -> None:
        """Leave the program."""
        self.give(None)
