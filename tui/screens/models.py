"""Choosing a model from those that were found, or by its full name. What can't be one is refused where it was typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.protocol.commands import ModelSet
from core.protocol.queries import Models, ModelsQuery
from tui.screens.picker import Choice, Picker

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

SCRIPTED = "scripted"
NOTHING = "No model was found. /login takes a key; a model server on this machine is found while it runs."


async def change_model(screen: ActingScreen) -> None:
    """Go on with another model, from the list of those that were found."""
    found = await screen.bridge.query(ModelsQuery())
    if not isinstance(found, Models):
        screen.say(getattr(found, "message", "The models can't be listed."), is_error=True)
    elif model := await pick_model(screen, found, current=screen.state.model):
        await screen.deliver(ModelSet(model=model))


async def pick_model(screen: ActingScreen, found: Models, *, provider: str = "", current: str = "") -> str:
    """The id of the model that the user chose, among all or those of one provider; "" = none."""
    models = [each for each in found.models if not provider or each.id.startswith(f"{provider}/")]
    choices = [Choice(each.id, each.id, "" if provider else each.source) for each in models]
    status = next((each for each in found.providers if each.id == provider), None)
    about = "" if models else NOTHING
    if status is not None and status.problem:
        about = f"{status.label} did not list its models: {status.problem}"

    def check(text: str) -> str:
        return problem_of(text, found)

    free = "filter, or type provider/name"
    return (
        await screen.app.push_screen_wait(
            Picker("Model", choices, current=current, free=free, about=about, check=check)
        )
        or ""
    )


async def model_opened_by_key(screen: ActingScreen, provider: str, *, keyed: bool = True) -> str:
    """One of the models that a new key, or a new address, opens; "" = none was chosen."""
    screen.say(f"{'The key' if keyed else 'The address'} is kept. Looking for its models…")
    found = await screen.bridge.query(ModelsQuery())
    screen.app.clear_notifications()  # they would cover the list
    return await pick_model(screen, found, provider=provider) if isinstance(found, Models) else ""


def problem_of(text: str, found: Models) -> str:
    """Why `text` is no id of a model; "" = it may be one."""
    provider, _, name = text.partition("/")
    known = [*(each.id for each in found.providers), SCRIPTED]
    if provider in known and name.strip():
        return ""
    what = f"There is no provider {provider!r}." if name.strip() else f"{text!r} is not the name of a model."
    return f"{what} Write PROVIDER/NAME; the providers are {', '.join(known)}."
