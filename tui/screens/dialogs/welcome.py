"""The dialog of the first run: the models that were found, and the ways on. Enter takes the first of them."""

from __future__ import annotations

from typing import Final, Literal

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.protocol.commands import ProviderConfigure
from core.protocol.models import ProviderStatus
from core.protocol.queries import ModelsAnswer
from tui.bridge import SessionRequest
from tui.keymap import get_bindings
from tui.screens.dialogs.dialog import Dialog
from tui.text import fit_line
from tui.widgets.input_line import SteadyInput

LAW: Final = (
    "A chat IDE whose agent works in a shadow of your project:\n"
    "nothing reaches your files until you accept it, hunk by hunk."
)
KEY_STORAGE_HINT: Final = "It is kept in the keyring, else in a file that only you can read. Escape goes back."
MAX_NAMED_PROVIDERS: Final = 2  # providers that are named themselves; the others are behind a list
WelcomeAnswer = SessionRequest | ProviderConfigure | Literal["address", "other"]


class WelcomeDialog(Dialog[WelcomeAnswer]):
    """Asks how to begin: a `SessionRequest` (a model, or the demo), a `ProviderConfigure` with a pasted key,
    "address" (a server of the user's own), "other" (a key for another provider), or None to leave."""

    BINDINGS = get_bindings("welcome")

    def __init__(self, models: ModelsAnswer, request: SessionRequest) -> None:
        super().__init__(Content.styled("agent-tui", "bold $accent"))
        self._models, self._request = models, request
        self._provider = ""
        self._is_searching = True
        self._first: str | None = None  # what is marked while the user marks nothing else

    def compose_body(self) -> ComposeResult:
        yield Static(Content(LAW), classes="welcome-law")
        yield Static(id="welcome-found")
        yield OptionList(compact=True, id="welcome-ways")
        yield SteadyInput(password=True, compact=True, id="welcome-key", placeholder="paste the key, then enter")
        yield Static(id="welcome-hint")

    def set_up(self) -> None:
        self.query_one("#welcome-key", Input).display = False
        self._refresh()
        self.query_one("#welcome-ways").focus()

    def show_models(self, models: ModelsAnswer) -> None:
        """Show the models that were found, once the search of servers has ended."""
        self._models, self._is_searching = models, False
        if self.is_mounted:  # an answer may come before the screen does
            self._refresh()

    def _refresh(self) -> None:
        """Refresh the list. What was found stands first and marked, else the demo, unless the user has marked something
        else meanwhile."""
        self.query_one("#welcome-found", Static).update(self._render_providers())
        ways = self.query_one("#welcome-ways", OptionList)
        options = [_build_option("demo", "Take the demo", "scripted, on a sample, no key")]
        if count := len(self._models.models):
            options.insert(0, _build_option("pick", "Choose a model", f"{count} found"))
        keyless = [provider for provider in self._models.providers if not provider.local and not provider.key]
        for provider in keyless[:MAX_NAMED_PROVIDERS]:
            options.append(_build_option(f"key:{provider.id}", f"Paste a key for {fit_line(provider.label, 40)}"))
        if others := ", ".join(fit_line(provider.label, 20) for provider in keyless[MAX_NAMED_PROVIDERS:]):
            options.append(_build_option("other", "Paste another key…", fit_line(others, 30)))
        options.append(_build_option("address", "A server of your own…", "any address"))
        options.append(_build_option("leave", "Leave"))
        marked_id = ways.highlighted_option.id if ways.highlighted_option else None
        ways.set_options(options)
        ways.highlighted = next(
            (index for index, option in enumerate(options) if option.id == marked_id != self._first), 0
        )
        self._first = options[0].id

    def _render_providers(self) -> Content:
        parts: list[tuple[str, str]] = []
        keyless = [
            provider_status
            for provider_status in self._models.providers
            if not provider_status.local and not provider_status.key and not provider_status.problem
        ]
        visible_providers = [
            provider_status
            for provider_status in self._models.providers
            if provider_status not in keyless[MAX_NAMED_PROVIDERS:]
        ]
        rows = [(*self._describe_provider(provider_status), provider_status) for provider_status in visible_providers]
        for usable, description, provider in sorted(rows, key=lambda row: not row[0]):
            parts.append(("✓ " if usable else "· ", "$success" if usable else "$foreground 60%"))
            parts.append((fit_line(provider.label, 22).ljust(22), "" if usable else "$foreground 60%"))
            parts.append((f"{fit_line(description, 60)}\n", "$foreground 60%"))
        return Content.assemble(*parts or [("Nothing was found to work with yet.\n", "$foreground 60%")])

    def _describe_provider(self, provider: ProviderStatus) -> tuple[bool, str]:
        """Return whether a provider can be used as far as is known, and why or why not."""
        if provider.local:
            if self._is_searching:
                return False, "looking…"
            return not provider.problem, provider.problem or provider.base_url
        return bool(provider.key) and not provider.problem, provider.problem or provider.key or "no key found"

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        match event.option.id:
            case "demo":
                self.answer(SessionRequest(demo=True, mode=self._request.mode))
            case "pick":
                self._pick_model()
            case "address" | "other" as way:
                self.answer(way)
            case "leave":
                self.answer(None)
            case str(way):
                self._ask_for_key(way.removeprefix("key:"))

    def _pick_model(self) -> None:
        from tui.screens.dialogs.picker import PickerDialog, PickerOption

        choices = [PickerOption(model.id, model.id, model.source) for model in self._models.models]
        _ = self.app.push_screen(PickerDialog("Choose a model", choices), self._take_model)

    def _take_model(self, model: str | None) -> None:
        if model:
            self.answer(SessionRequest(model=model, mode=self._request.mode))

    def _ask_for_key(self, provider: str) -> None:
        self._provider = provider
        key = self.query_one("#welcome-key", Input)
        key.value, key.display = "", True
        key.focus()
        self.query_one("#welcome-hint", Static).update(Content.assemble((KEY_STORAGE_HINT, "$foreground 60%")))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if key := event.value.strip():
            self.answer(ProviderConfigure(provider=self._provider, key=key))

    def action_back(self) -> None:
        self.query_one("#welcome-key", Input).display = False
        self.query_one("#welcome-hint", Static).update("")
        self.query_one("#welcome-ways").focus()


def _build_option(name: str, label: str, note: str = "") -> Option:
    return Option(Content.assemble(label, (f"   {note}" if note else "", "$foreground 60%")), id=name)
