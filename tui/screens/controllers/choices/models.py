"""The controller of models: which one answers, how much it thinks, and which does what."""

from __future__ import annotations

from typing import Final, Literal, get_args

from core.protocol.commands import EffortSet, ModelSet
from core.protocol.messages import Effort
from core.protocol.models import RouteRow
from core.protocol.queries import ModelsAnswer, ModelsQuery, RoutesAnswer, RoutesQuery
from tui.screens.controller import Controller, in_worker
from tui.screens.dialogs.picker import PickerDialog, PickerOption
from tui.text import fit_line

SCRIPTED_PROVIDER: Final = "scripted"
NO_MODELS: Final = "No model was found. /login takes a key; a model server on this machine is found while it runs."
EFFORT_LEVELS: Final[tuple[Effort, ...]] = get_args(Effort)
DEFAULT_EFFORT: Final = "default"


class ModelController(Controller):
    """Sets the model and its effort."""

    def action_choose_model(self, model: str) -> None:
        if model:
            self.context.submit_soon(ModelSet(model=model))
        else:
            self._change_model()

    @in_worker("picker")
    async def _change_model(self) -> None:
        answer = await self.context.query(ModelsQuery(), ModelsAnswer, "The models can't be listed.")
        if answer and (model := await self.pick_model(answer, current=self.context.state.shown_model)):
            await self.context.submit(ModelSet(model=model))

    async def pick_model(self, answer: ModelsAnswer, *, provider: str = "", current: str = "") -> str:
        """Ask for a model, among all or those of one provider, and return its id; "" = none."""
        models = [model for model in answer.models if not provider or model.id.startswith(f"{provider}/")]
        options = [PickerOption(model.id, model.id, "" if provider else model.source) for model in models]
        status = next((provider_status for provider_status in answer.providers if provider_status.id == provider), None)
        explanation = "" if models else f"In use: {current}. No other was found." if current else NO_MODELS
        if status is not None and status.problem:
            explanation = f"{status.label} did not list its models: {status.problem}"
        free_text = "filter, or type provider/name"
        dialog = PickerDialog("Model", options, current=current, free_text=free_text, explanation=explanation)
        dialog.check = lambda text: check_model_id(text, answer)
        return await self.context.ask(dialog) or ""

    async def pick_new_model(self, provider: str, *, has_key: bool = True) -> str:
        """Ask for one of the models that a new key, or a new address, gives access to; "" = none was chosen."""
        self.context.notify_user(f"{'The key' if has_key else 'The address'} is kept. Looking for its models…")
        answer = await self.context.query(ModelsQuery(), ModelsAnswer)
        self.context.screen.app.clear_notifications()  # they would cover the list
        return await self.pick_model(answer, provider=provider) if answer else ""

    # Effort and routes

    @in_worker("picker")
    async def action_choose_effort(self, level: str = "") -> None:
        if level and level not in (*EFFORT_LEVELS, DEFAULT_EFFORT):
            hint = f"There are {', '.join(EFFORT_LEVELS)}, and {DEFAULT_EFFORT}."
            self.context.notify_user(f"There is no effort {level!r}.", hint, is_error=True)
            return
        level = level or await self._pick_effort()
        if level:
            effort: Effort | Literal[""] = next((candidate for candidate in EFFORT_LEVELS if candidate == level), "")
            if await self.context.submit(EffortSet(effort=effort)) and self.context.state.is_running:
                self.context.notify_user("The next turn begins with it.")

    async def _pick_effort(self) -> str:
        """Return the effort that was chosen, "" = none."""
        answer = await self.context.query(RoutesQuery(), RoutesAnswer)
        row = answer.rows[0] if answer and answer.rows else RouteRow(job="chat")
        options = [PickerOption(DEFAULT_EFFORT, DEFAULT_EFFORT, "what is configured, else the model's own")]
        notes = {level: "" if level in row.efforts else "not of this model" for level in EFFORT_LEVELS}
        options += [PickerOption(level, level, note) for level, note in notes.items()]
        explanation = "" if row.efforts else f"{row.model or 'This model'} has no effort to choose, as far as is known."
        title = f"Effort of {fit_line(row.model, 50)}" if row.model else "Effort"
        dialog = PickerDialog(title, options, current=row.effort or DEFAULT_EFFORT, explanation=explanation)
        return await self.context.ask(dialog) or ""

    @in_worker("picker")
    async def action_show_models(self, _: str = "") -> None:
        from tui.screens.dialogs.routes import build_routes_page

        answer = await self.context.query(RoutesQuery(), RoutesAnswer, "That can't be told now.")
        if answer is not None:
            self.context.show(build_routes_page(answer))


def check_model_id(text: str, answer: ModelsAnswer) -> str:
    """Describe why `text` is no id of a model; "" = it may be one."""
    provider, _, name = text.partition("/")
    provider_ids = [*(status.id for status in answer.providers), SCRIPTED_PROVIDER]
    if provider in provider_ids and name.strip():
        return ""
    problem = f"There is no provider {provider!r}." if name.strip() else f"{text!r} is not the name of a model."
    return f"{problem} Write PROVIDER/NAME; the providers are {', '.join(provider_ids)}."
