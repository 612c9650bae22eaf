"""`/login`: a key for a model API, at any time. It is kept for that address alone and never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from core.protocol import commands, queries
from core.protocol.models import ProviderStatus
from tui.keymap import bindings
from tui.screens.address import ask_address
from tui.screens.dialog import Dialog
from tui.screens.models import model_opened_by_key
from tui.screens.picker import Choice, Picker
from tui.screens.welcome import WHERE_KEYS_ARE
from tui.text import one_line

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen


ADDRESS: Final = "address"


class KeyEntry(Dialog[str | None]):
    """Answers the key that was pasted, or None."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("key")

    def __init__(self, label: str) -> None:
        super().__init__()
        self._label = label

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(f"Paste a key for {one_line(self._label, 40)}"), classes="dialog-title")
            key = Input(password=True, compact=True, placeholder="paste the key, then enter")
            key.cursor_blink = False
            yield key
            yield Static(Content.styled(WHERE_KEYS_ARE, "$foreground 60%"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if key := event.value.strip():
            self.give(key)

    def action_leave(self) -> None:
        """No key."""
        self.give(None)


async def login(screen: ActingScreen, named: str) -> None:
    """Take a key; then a model of that provider, unless one is in use already."""
    found = await screen.bridge.query(queries.ModelsQuery(discover=False))
    if not isinstance(found, queries.Models):
        screen.say(getattr(found, "message", "The providers can't be listed."), is_error=True)
        return
    if named == ADDRESS:
        await _go_to_address(screen)
        return
    provider = await _provider(screen, found, named)
    if provider is None:
        return
    key = await screen.app.push_screen_wait(KeyEntry(provider.label))
    if not key or not await screen.deliver(commands.ProviderConfigure(provider=provider.id, key=key)):
        return
    if screen.state.model.startswith(f"{provider.id}/"):
        screen.say(f"The key for {provider.label} is kept.", "The next message uses it.")
        return
    if model := await model_opened_by_key(screen, provider.id):
        await screen.deliver(commands.ModelSet(model=model))


async def _provider(screen: ActingScreen, found: queries.Models, named: str) -> ProviderStatus | None:
    """The one that was named, or chosen from a list; what is named wrongly is told."""
    remote = {each.id: each for each in found.providers if not each.local}
    if named in remote:
        return remote[named]
    if named:
        screen.say(f"There is no provider {named!r} that takes a key; there are {', '.join(remote)}.", is_error=True)
        return None
    choices = [Choice(each.id, each.label, f"in use: {each.key}" if each.key else "") for each in remote.values()]
    choices.append(Choice(ADDRESS, "A server of your own…", "any address"))
    chosen = await screen.app.push_screen_wait(Picker("Paste a key for…", choices))
    if chosen == ADDRESS:
        await _go_to_address(screen)
    return remote.get(chosen or "")


async def _go_to_address(screen: ActingScreen) -> None:
    """Take an address of the user's own, then one of the models there."""
    answer = await ask_address(screen)
    if answer is None or not await screen.deliver(answer):
        return
    if model := await model_opened_by_key(screen, answer.provider, keyed=bool(answer.key)):
        await screen.deliver(commands.ModelSet(model=model))
