"""Keys for model APIs (`/login`), at any time. A key is kept for its address alone and never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from core.protocol import commands, queries
from core.protocol.models import ProviderStatus
from tui.keymap import get_bindings
from tui.screens.controllers.models import pick_new_model
from tui.screens.dialogs.dialog import Dialog
from tui.screens.dialogs.picker import PickerDialog, PickerOption
from tui.screens.dialogs.provider import ask_address
from tui.screens.dialogs.welcome import KEY_STORAGE_HINT
from tui.text import fit_line

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen


ADDRESS: Final = "address"


class KeyDialog(Dialog[str | None]):
    """Asks for a key; None = none was pasted."""

    BINDINGS: ClassVar[list[BindingType]] = get_bindings("key")

    def __init__(self, label: str) -> None:
        super().__init__()
        self._label = label

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(f"Paste a key for {fit_line(self._label, 40)}"), classes="dialog-title")
            key = Input(password=True, compact=True, placeholder="paste the key, then enter")
            key.cursor_blink = False
            yield key
            yield Static(Content.styled(KEY_STORAGE_HINT, "$foreground 60%"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if key := event.value.strip():
            self.answer(key)

    def action_leave(self) -> None:
        """Paste no key."""
        self.answer(None)


async def paste_key(screen: ActingScreen, named: str) -> None:
    """Ask for a key; then for a model of that provider, unless one is in use already."""
    found = await screen.bridge.query(queries.ModelsQuery(discover=False))
    if not isinstance(found, queries.ModelsAnswer):
        screen.notify_user(getattr(found, "message", "The providers can't be listed."), is_error=True)
        return
    if named == ADDRESS:
        await _add_address(screen)
        return
    provider = await _choose_provider(screen, found, named)
    if provider is None:
        return
    key = await screen.app.push_screen_wait(KeyDialog(provider.label))
    if not key or not await screen.submit(commands.ProviderConfigure(provider=provider.id, key=key)):
        return
    if screen.state.model.startswith(f"{provider.id}/"):
        screen.notify_user(f"The key for {provider.label} is kept.", "The next message uses it.")
        return
    if model := await pick_new_model(screen, provider.id):
        await screen.submit(commands.ModelSet(model=model))


async def _choose_provider(screen: ActingScreen, found: queries.ModelsAnswer, named: str) -> ProviderStatus | None:
    """Return the provider that was named, or chosen from a list; a wrong name is reported."""
    remote = {each.id: each for each in found.providers if not each.local}
    if named in remote:
        return remote[named]
    if named:
        screen.notify_user(
            f"There is no provider {named!r} that takes a key; there are {', '.join(remote)}.", is_error=True
        )
        return None
    choices = [PickerOption(each.id, each.label, f"in use: {each.key}" if each.key else "") for each in remote.values()]
    choices.append(PickerOption(ADDRESS, "A server of your own…", "any address"))
    chosen = await screen.app.push_screen_wait(PickerDialog("Paste a key for…", choices))
    if chosen == ADDRESS:
        await _add_address(screen)
    return remote.get(chosen or "")


async def _add_address(screen: ActingScreen) -> None:
    """Ask for an address of the user's own, then for one of the models there."""
    answer = await ask_address(screen)
    if answer is None or not await screen.submit(answer):
        return
    if model := await pick_new_model(screen, answer.provider, keyed=bool(answer.key)):
        await screen.submit(commands.ModelSet(model=model))
