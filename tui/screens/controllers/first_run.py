"""The first run: no model is configured, so the user chooses one, pastes a key, or takes the demo.

The choice is kept as the default; nothing waits for the search of local servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.protocol import commands, queries
from tui.bridge import SessionRequest
from tui.screens.controllers.models import pick_new_model
from tui.screens.controllers.providers import KeyDialog
from tui.screens.dialogs.picker import PickerDialog, PickerOption
from tui.screens.dialogs.provider import ask_address
from tui.screens.dialogs.welcome import WelcomeDialog
from tui.workers import start_worker

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen


async def run_first_run(
    screen: ActingScreen, models: queries.ModelsAnswer, request: SessionRequest
) -> SessionRequest | None:
    """Ask how to begin; None = the user wants to leave."""
    while True:
        welcome = WelcomeDialog(models, request)
        looking = start_worker(screen, _search_models, screen, welcome, group="welcome", exclusive=True)
        answer = await screen.app.push_screen_wait(welcome)
        looking.cancel()
        if answer in ("address", "other"):
            answer = await (ask_address(screen) if answer == "address" else _ask_key_for_other(screen, models))
            if answer is None:
                continue
        match answer:
            case None:
                return None
            case SessionRequest(model=model):
                if not model or await _save_default_model(screen, model):
                    return answer
            case commands.ProviderConfigure(provider=provider):
                if await screen.submit(answer):
                    model = await pick_new_model(screen, provider, keyed=bool(answer.key))
                    if model and await _save_default_model(screen, model):
                        return SessionRequest(model=model, mode=request.mode)
        found = await screen.bridge.query(queries.ModelsQuery(discover=False))
        models = found if isinstance(found, queries.ModelsAnswer) else models


async def _ask_key_for_other(screen: ActingScreen, models: queries.ModelsAnswer) -> commands.ProviderConfigure | None:
    """Ask for a key for a provider that the welcome dialog does not name; None: the user went back."""
    keyless = {each.id: each for each in models.providers if not each.local and not each.key}
    choices = [PickerOption(each.id, each.label) for each in keyless.values()]
    chosen = await screen.app.push_screen_wait(PickerDialog("Paste a key for…", choices))
    key = await screen.app.push_screen_wait(KeyDialog(keyless[chosen].label)) if chosen else None
    return commands.ProviderConfigure(provider=chosen, key=key) if chosen and key else None


async def _search_models(screen: ActingScreen, welcome: WelcomeDialog) -> None:
    """Search for model servers, which take a moment to answer; the welcome dialog is there at once."""
    found = await screen.bridge.query(queries.ModelsQuery())
    if isinstance(found, queries.ModelsAnswer):
        welcome.show_models(found)


async def _save_default_model(screen: ActingScreen, model: str) -> bool:
    """Make a model the default. False: it can't be, and that was reported."""
    return await screen.submit(commands.ProviderConfigure(provider=model.partition("/")[0], model=model))
