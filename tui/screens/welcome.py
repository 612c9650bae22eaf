"""The first run: what was found to work with, and the ways on. Enter takes the first of them."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.commands import ProviderConfigure
from core.protocol.models import ProviderStatus
from core.protocol.queries import Models
from tui.bridge import Wish
from tui.keymap import bindings
from tui.screens.dialog import Dialog
from tui.text import clean, one_line

WHERE_KEYS_ARE: Final = "It is kept in the keyring, else in a file that only you can read. Escape goes back."
FIRST: Final = 2  # providers that are named themselves; the others are behind a list
Answer = Wish | ProviderConfigure | Literal["address", "other"]


class Welcome(Dialog[Answer | None]):
    """Answers a `Wish` (a model, or the demo), a `ProviderConfigure` with a pasted key, which way to go on ("address":
    one of the user's own, "other": a key for another provider), or None to leave."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("welcome")

    def __init__(self, models: Models, wish: Wish) -> None:
        super().__init__()
        self._models, self._wish = models, wish
        self._provider = ""
        self._looking = True

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

    def opened(self) -> None:
        self.query_one("#welcome-key", Input).display = False
        self._show()
        self.query_one("#welcome-ways").focus()

    def show_models(self, models: Models) -> None:
        """What was found; called when the search of servers has ended."""
        self._models, self._looking = models, False
        if self.is_mounted:  # an answer may come before the screen does
            self._show()

    def _show(self) -> None:
        """The demo stands first and marked; what the user has marked meanwhile stays marked."""
        self.query_one("#welcome-found", Static).update(self._found())
        ways = self.query_one("#welcome-ways", OptionList)
        marked = ways.highlighted_option.id if ways.highlighted_option else "demo"
        options = [_way("demo", "Take the demo", "scripted, on a sample, no key")]
        if count := len(self._models.models):
            options.append(_way("pick", "Choose a model", f"{count} found"))
        keyless = [each for each in self._models.providers if not each.local and not each.key]
        options += [_way(f"key:{each.id}", f"Paste a key for {one_line(each.label, 40)}") for each in keyless[:FIRST]]
        if others := ", ".join(one_line(each.label, 20) for each in keyless[FIRST:]):
            options.append(_way("other", "Paste another key…", one_line(others, 30)))
        options.append(_way("address", "A server of your own…", "any address"))
        options.append(_way("leave", "Leave"))
        ways.set_options(options)
        ways.highlighted = next((index for index, each in enumerate(options) if each.id == marked), 0)

    def _found(self) -> Content:
        parts: list[tuple[str, str]] = []
        keyless = [each for each in self._models.providers if not each.local and not each.key and not each.problem]
        shown = [(*self._state_of(each), each) for each in self._models.providers if each not in keyless[FIRST:]]
        for usable, what, provider in sorted(shown, key=lambda each: not each[0]):
            parts.append(("✓ " if usable else "· ", "$success" if usable else "$foreground 60%"))
            parts.append((one_line(provider.label, 22).ljust(22), "" if usable else "$foreground 60%"))
            parts.append((f"{one_line(clean(what), 60)}\n", "$foreground 60%"))
        return Content.assemble(*parts or [("Nothing was found to work with yet.\n", "$foreground 60%")])

    def _state_of(self, provider: ProviderStatus) -> tuple[bool, str]:
        """Whether it can be used as far as is known, and why or why not."""
        if provider.local:
            if self._looking:
                return False, "looking…"
            return not provider.problem, provider.problem or provider.base_url
        return bool(provider.key) and not provider.problem, provider.problem or provider.key or "no key found"

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        match event.option.id:
            case "demo":
                self.give(Wish(demo=True, mode=self._wish.mode))
            case "pick":
                self._pick()
            case "address" | "other" as way:
                self.give(way)
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
        self.query_one("#welcome-hint", Static).update(Content.assemble((WHERE_KEYS_ARE, "$foreground 60%")))

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


def _way(name: str, label: str, note: str = "") -> Option:
    return Option(Content.assemble(label, (f"   {note}" if note else "", "$foreground 60%")), id=name)
