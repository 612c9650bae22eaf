"""The first run: no model is configured, so the user chooses one, pastes a key, or takes the demo.

What is chosen here is kept as the default; nothing waits for the search of local servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.protocol import commands, queries
from tui.bridge import Wish
from tui.screens.address import ask_address
from tui.screens.login import KeyEntry
from tui.screens.models import model_opened_by_key
from tui.screens.picker import Choice, Picker
from tui.screens.welcome import Welcome
from tui.work import begin

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen


async def first_run(screen: ActingScreen, models: queries.Models, wish: Wish) -> Wish | None:
    """What to begin with; None = the user wants to leave."""
    while True:
        welcome = Welcome(models, wish)
        looking = begin(screen, _look_around, screen, welcome, group="welcome", exclusive=True)
        answer = await screen.app.push_screen_wait(welcome)
        looking.cancel()
        if answer in ("address", "other"):
            answer = await (ask_address(screen) if answer == "address" else _key_for_another(screen, models))
            if answer is None:
                continue
        match answer:
            case None:
                return None
            case Wish(model=model):
                if not model or await _keep(screen, model):
                    return answer
            case commands.ProviderConfigure(provider=provider):
                if await screen.deliver(answer):
                    model = await model_opened_by_key(screen, provider, keyed=bool(answer.key))
                    if model and await _keep(screen, model):
                        return Wish(model=model, mode=wish.mode)
        found = await screen.bridge.query(queries.ModelsQuery(discover=False))
        models = found if isinstance(found, queries.Models) else models


async def _key_for_another(screen: ActingScreen, models: queries.Models) -> commands.ProviderConfigure | None:
    """A key for one of the providers that the welcome screen does not name; None: the user went back."""
    keyless = {each.id: each for each in models.providers if not each.local and not each.key}
    choices = [Choice(each.id, each.label) for each in keyless.values()]
    chosen = await screen.app.push_screen_wait(Picker("Paste a key for…", choices))
    key = await screen.app.push_screen_wait(KeyEntry(keyless[chosen].label)) if chosen else None
    return commands.ProviderConfigure(provider=chosen, key=key) if chosen and key else None


async def _look_around(screen: ActingScreen, welcome: Welcome) -> None:
    """Servers take a moment to answer; the welcome screen is there at once."""
    found = await screen.bridge.query(queries.ModelsQuery())
    if isinstance(found, queries.Models):
        welcome.show_models(found)


async def _keep(screen: ActingScreen, model: str) -> bool:
    """Begin with this model from now on. False: it can't be, and that was told."""
    return await screen.deliver(commands.ProviderConfigure(provider=model.partition("/")[0], model=model))
