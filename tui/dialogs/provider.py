"""The dialogs of model providers: the welcome at the first start, a server's address, an API key."""

from __future__ import annotations

import re
from typing import Final, Literal

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from core.patterns import compile_lazily
from core.protocol.commands import ProviderConfigure
from core.protocol.models import ProviderStatus
from core.protocol.queries import ModelsAnswer
from core.text.display_names import shorten_model
from tui.bridge import SessionRequest
from tui.dialogs.dialog import Dialog
from tui.keymap import get_bindings
from tui.text import fit_line
from tui.widgets.input_line import SteadyInput

LAW: Final = (
    "A chat IDE whose agent works on a shadow copy of your project.\n"
    "Your files are untouched until you accept, hunk by hunk."
)
KEY_STORAGE_HINT: Final = "Stored in the keyring if installed, else in a file only you can read. Esc to go back."
MAX_NAMED_PROVIDERS: Final = 2  # providers that are named themselves; the others are behind a list
WelcomeAnswer = SessionRequest | ProviderConfigure | Literal["address", "other"]
FIELDS: Final = {
    "url": "address, such as localhost:8080 or https://host.example/v1",
    "name": "name (optional; default: from the address)",
    "key": "key, if needed",
}
ABOUT: Final = "Any server with chat completions works. The address is enough: Enter looks for models, ↓ next field."
BAD_NAME: Final = "A name uses lowercase letters, digits, - and _, and starts with a letter."
BAD_ADDRESS: Final = "An address is host:port or an http(s) URL, usually ending in /v1."
_MAX_NAME: Final = 31
_NAME: Final = compile_lazily(r"[a-z][a-z0-9_-]{0,30}")
_ADDRESS: Final = compile_lazily(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9a-f:]+\]|[a-z0-9_.-]+)(?::(?P<port>\d{1,5}))?(?P<path>/[^\s?#]*)?",
    re.IGNORECASE,
)
_OWN_HOST: Final = compile_lazily(r"localhost|127\.[\d.]+|\[::1\]|0\.0\.0\.0", re.IGNORECASE)
_USUAL_PATH: Final = "/v1"
RESERVED_NAMES: Final = frozenset({"scripted"})


class WelcomeDialog(Dialog[WelcomeAnswer]):
    """Asks how to start: a `SessionRequest` (a model, or the demo), a `ProviderConfigure` with a pasted key,
    "address" (a user's server), "other" (a key for another provider), or None to leave."""

    BINDINGS = get_bindings("welcome")

    def __init__(self, models: ModelsAnswer, request: SessionRequest) -> None:
        super().__init__(Content.styled("agent-tui", "bold $accent"))
        self._models, self._request = models, request
        self._provider = ""
        self._is_searching = True
        self._first: str | None = None  # the default option until the user moves the cursor

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
        """Show local models when their discovery has ended."""
        self._models, self._is_searching = models, False
        if self.is_mounted:  # an answer may come before the screen does
            self._refresh()

    def _refresh(self) -> None:
        """Refresh the list. Local models come first and are the default, otherwise the demo, unless the user has
        moved the cursor."""
        self.query_one("#welcome-found", Static).update(self._render_providers())
        ways = self.query_one("#welcome-ways", OptionList)
        options = [_build_option("demo", "Try the demo", "scripted, sample project, no key")]
        if count := len(self._models.models):
            options.insert(0, _build_option("pick", "Choose a model", f"{count} found"))
        keyless = [provider for provider in self._models.providers if not provider.local and not provider.key]
        for provider in keyless[:MAX_NAMED_PROVIDERS]:
            options.append(_build_option(f"key:{provider.id}", f"Paste a key for {fit_line(provider.label, 40)}"))
        if others := ", ".join(fit_line(provider.label, 20) for provider in keyless[MAX_NAMED_PROVIDERS:]):
            options.append(_build_option("other", "Paste another key…", fit_line(others, 30)))
        options.append(_build_option("address", "Your own server…", "any address"))
        options.append(_build_option("leave", "Quit"))
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
        return Content.assemble(*parts or [("No models found yet.\n", "$foreground 60%")])

    def _describe_provider(self, provider: ProviderStatus) -> tuple[bool, str]:
        """Describe whether a provider is usable, as far as is known, and why."""
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
        from tui.dialogs.picker import PickerDialog, PickerOption

        choices = [PickerOption(model.id, shorten_model(model.id), model.source) for model in self._models.models]
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


def complete_address(text: str) -> str:
    """Complete an address to a URL: `host:port` is valid, and a missing path becomes the usual one; "" = invalid.

    Without a scheme it is https for a public host name, and http with a port or on a private network.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"] or 1) not in range(1, 1 << 16):
        return ""
    host, path = match["host"], (match["path"] or "").rstrip("/")
    if not match["scheme"] and not ("." in host or match["port"] or _OWN_HOST.fullmatch(host)):
        return ""  # one bare word is more likely a slip
    is_public = not match["port"] and not _OWN_HOST.fullmatch(host)
    scheme = (match["scheme"] or ("https" if is_public else "http")).lower()
    return f"{scheme}://{host}{':' if match['port'] else ''}{match['port'] or ''}{path or _USUAL_PATH}"


def name_server(url: str) -> str:
    """Return a name for the server at an address: `local-8080`, `host-example`."""
    match = _ADDRESS.fullmatch(url)
    if match is None:
        return ""
    host = "local" if _OWN_HOST.fullmatch(match["host"]) else match["host"].lower()
    words = re.findall(r"[a-z0-9]+", f"{host} {match['port'] or ''}")
    name = "-".join(words if words[0][0].isalpha() else ("at", *words))
    return name[:_MAX_NAME].rstrip("-")


class AddressDialog(Dialog[ProviderConfigure]):
    """Asks for a server's address; None = the user cancelled. Mistakes are reported below the input."""

    BINDINGS = get_bindings("address")

    def __init__(self) -> None:
        super().__init__("Your own model server")

    def compose_body(self) -> ComposeResult:
        for name, placeholder in FIELDS.items():
            yield SteadyInput(placeholder=placeholder, password=name == "key", compact=True, id=f"address-{name}")
        yield Static(Content.styled(ABOUT, "$foreground 60%"), id="address-about")

    def set_up(self) -> None:
        self._get_field("url").focus()

    def _get_field(self, name: str) -> Input:
        return self.query_one(f"#address-{name}", Input)

    def _get_value(self, name: str) -> str:
        return self._get_field(name).value.strip()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer, unless something can't be right."""
        event.stop()
        url = complete_address(self._get_value("url"))
        name = self._get_value("name") or name_server(url)
        is_name = name not in RESERVED_NAMES and _NAME.fullmatch(name)
        problems = {"url": "" if url else BAD_ADDRESS, "name": "" if is_name else BAD_NAME}
        for field, problem in problems.items():
            if problem:
                self._show_problem(problem)
                self._get_field(field).focus()
                return
        self.answer(ProviderConfigure(provider=name, base_url=url, key=self._get_value("key")))

    def _show_problem(self, problem: str) -> None:
        style = "$error" if problem else "$foreground 60%"
        self.query_one("#address-about", Static).update(Content.styled(problem or ABOUT, style))

    def action_move(self, step: int) -> None:
        names = list(FIELDS)
        position = next((index for index, name in enumerate(names) if self._get_field(name).has_focus), 0)
        self._get_field(names[(position + step) % len(names)]).focus()


class KeyDialog(Dialog[str]):
    """Asks for a key; None = none was pasted."""

    BINDINGS = get_bindings("key")

    def __init__(self, label: str) -> None:
        super().__init__(f"Paste a key for {fit_line(label, 40)}")

    def compose_body(self) -> ComposeResult:
        yield SteadyInput(password=True, compact=True, placeholder="paste the key, then enter")
        yield Static(Content.styled(KEY_STORAGE_HINT, "$foreground 60%"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if key := event.value.strip():
            self.answer(key)
