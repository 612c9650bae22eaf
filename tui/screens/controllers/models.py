"""The choice of a model from those that were found, or by its full name; a wrong name is refused where it was
typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.protocol.commands import ModelSet
from core.protocol.queries import ModelsAnswer, ModelsQuery
from tui.screens.dialogs.picker import PickerDialog, PickerOption

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

SCRIPTED_PROVIDER = "scripted"
NO_MODELS = "No model was found. /login takes a key; a model server on this machine is found while it runs."


async def change_model(screen: ActingScreen) -> None:
    """Choose another model from the list of those that were found."""
    found = await screen.bridge.query(ModelsQuery())
    if not isinstance(found, ModelsAnswer):
        screen.notify_user(getattr(found, "message", "The models can't be listed."), is_error=True)
    elif model := await pick_model(screen, found, current=screen.state.model):
        await screen.submit(ModelSet(model=model))


async def pick_model(screen: ActingScreen, found: ModelsAnswer, *, provider: str = "", current: str = "") -> str:
    """Ask for a model, among all or those of one provider, and return its id; "" = none."""
    models = [each for each in found.models if not provider or each.id.startswith(f"{provider}/")]
    choices = [PickerOption(each.id, each.id, "" if provider else each.source) for each in models]
    status = next((each for each in found.providers if each.id == provider), None)
    about = "" if models else NO_MODELS
    if status is not None and status.problem:
        about = f"{status.label} did not list its models: {status.problem}"

    def check(text: str) -> str:
        return check_model_id(text, found)

    free = "filter, or type provider/name"
    return (
        await screen.app.push_screen_wait(
            PickerDialog("Model", choices, current=current, free_text=free, about=about, check=check)
        )
        or ""
    )


async def pick_new_model(screen: ActingScreen, provider: str, *, keyed: bool = True) -> str:
    """Ask for one of the models that a new key, or a new address, gives access to; "" = none was chosen."""
    screen.notify_user(f"{'The key' if keyed else 'The address'} is kept. Looking for its models…")
    found = await screen.bridge.query(ModelsQuery())
    screen.app.clear_notifications()  # they would cover the list
    return await pick_model(screen, found, provider=provider) if isinstance(found, ModelsAnswer) else ""


def check_model_id(text: str, found: ModelsAnswer) -> str:
    """Describe why `text` is no id of a model; "" = it may be one."""
    provider, _, name = text.partition("/")
    known = [*(each.id for each in found.providers), SCRIPTED_PROVIDER]
    if provider in known and name.strip():
        return ""
    what = f"There is no provider {provider!r}." if name.strip() else f"{text!r} is not the name of a model."
    return f"{what} Write PROVIDER/NAME; the providers are {', '.join(known)}."
