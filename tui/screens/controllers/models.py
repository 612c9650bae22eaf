"""The controllers of models and of their providers: choosing, adding and removing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from core.protocol import commands, queries
from core.protocol.commands import EffortSet, ModelSet, TierSet
from core.protocol.messages import Effort, TierChoice
from core.protocol.models import ProviderStatus, RouteRow
from core.protocol.queries import ModelsAnswer, ModelsQuery, RoutesAnswer, RoutesQuery
from core.text.display_names import shorten_model
from tui.bridge import SessionRequest
from tui.dialogs.picker import PickerDialog, PickerOption
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.text import fit_line

if TYPE_CHECKING:
    from tui.dialogs.provider import WelcomeDialog

SCRIPTED_PROVIDER: Final = "scripted"
NO_MODELS: Final = "No model found. Add a key with /login, or start a model server on this machine."
EFFORT_LEVELS: Final[tuple[Effort, ...]] = get_args(Effort)
DEFAULT_EFFORT: Final = "default"
ADDRESS: Final = "address"


class ModelController(Controller):
    """Sets the model and its effort."""

    def action_choose_model(self, model: str) -> None:
        if model:
            self.context.submit_soon(ModelSet(model=model))
        else:
            self._change_model()

    @in_worker("picker")
    async def _change_model(self) -> None:
        answer = await self.context.query(ModelsQuery(), ModelsAnswer, "Couldn't list the models.")
        if answer and (model := await self.pick_model(answer, current=self.context.state.shown_model)):
            await self.context.submit(ModelSet(model=model))

    async def pick_model(self, answer: ModelsAnswer, *, provider: str = "", current: str = "") -> str:
        """Ask for a model, among all or those of one provider, and return its id; "" = none."""
        models = [model for model in answer.models if not provider or model.id.startswith(f"{provider}/")]
        options = [
            PickerOption(model.id, shorten_model(model.id), "" if provider else model.source) for model in models
        ]
        status = next((provider_status for provider_status in answer.providers if provider_status.id == provider), None)
        in_use = "scripted demo" if self.context.state.is_demo else current
        explanation = (
            "" if models else f"In use: {in_use}. No other model found; /login adds a key." if in_use else NO_MODELS
        )
        if status is not None and status.problem:
            explanation = f"{status.label} did not list its models: {status.problem.rstrip('.')}."
        free_text = "filter, or type PROVIDER/NAME"
        dialog = PickerDialog("Model", options, current=current, free_text=free_text, explanation=explanation)
        dialog.check = lambda text: check_model_id(text, answer)
        return await self.context.ask(dialog) or ""

    async def pick_new_model(self, provider: str, *, has_key: bool = True) -> str:
        """Ask for one of the models that a new key, or a new address, gives access to; "" = none was chosen."""
        self.context.notify_user(f"{'The key' if has_key else 'The address'} is saved. Looking for its models…")
        answer = await self.context.query(ModelsQuery(), ModelsAnswer)
        self.context.screen.app.clear_notifications()  # they would cover the list
        return await self.pick_model(answer, provider=provider) if answer else ""

    # Effort and routes

    @in_worker("picker")
    async def action_choose_effort(self, level: str = "") -> None:
        if level and level not in (*EFFORT_LEVELS, DEFAULT_EFFORT):
            hint = f"Choose from {', '.join(EFFORT_LEVELS)}, {DEFAULT_EFFORT}."
            self.context.notify_user(f"No effort level {level!r}.", hint, is_error=True)
            return
        level = level or await self._pick_effort()
        if level:
            effort: Effort | Literal[""] = next((candidate for candidate in EFFORT_LEVELS if candidate == level), "")
            if await self.context.submit(EffortSet(effort=effort)) and self.context.state.is_running:
                self.context.notify_user("It applies from the next turn.")

    async def _pick_effort(self) -> str:
        """Return the effort that was chosen, "" = none."""
        answer = await self.context.query(RoutesQuery(), RoutesAnswer)
        row = answer.rows[0] if answer and answer.rows else RouteRow(job="chat")
        options = [PickerOption(DEFAULT_EFFORT, DEFAULT_EFFORT, "as configured, else the model's default")]
        notes = {level: "" if level in row.efforts else "not supported" for level in EFFORT_LEVELS}
        options += [PickerOption(level, level, note) for level, note in notes.items()]
        explanation = "" if row.efforts else f"{row.model or 'This model'} has no known effort levels."
        title = f"Effort of {fit_line(shorten_model(row.model), 50)}" if row.model else "Effort"
        dialog = PickerDialog(title, options, current=row.effort or DEFAULT_EFFORT, explanation=explanation)
        return await self.context.ask(dialog) or ""

    @in_worker("picker")
    async def action_choose_tier(self, name: str = "") -> None:
        """Set the service tier; without a name, switch the fast one on or off."""
        answer = await self.context.query(RoutesQuery(), RoutesAnswer, "Not available now.")
        row = answer.rows[0] if answer and answer.rows else RouteRow(job="chat")
        tier = {"on": "fast", "off": "standard"}.get(name, name) or ("standard" if row.tier == "fast" else "fast")
        factors = dict(zip(row.tiers, row.tier_factors, strict=True)) | {"standard": 1.0}
        if tier not in factors:
            offered = ", ".join(f"{known} (×{factor:g})" for known, factor in factors.items() if known != "standard")
            hint = f"It has {offered}." if offered else "It has no other than the standard one."
            self.context.notify_user(f"{row.model or 'This model'} has no service tier {tier!r}.", hint, is_error=True)
            return
        if await self.context.submit(TierSet(tier=cast("TierChoice", tier))):
            price = f"{factors[tier]:g} × the standard price" if factors[tier] != 1 else "the standard price"
            self.context.notify_user(f"Service tier {tier}: {price}, from the next turn on.")

    @in_worker("picker")
    async def action_show_models(self, _: str = "") -> None:
        from tui.dialogs.pages import build_routes_page

        answer = await self.context.query(RoutesQuery(), RoutesAnswer, "Not available now.")
        if answer is not None:
            self.context.show(build_routes_page(answer))


def check_model_id(text: str, answer: ModelsAnswer) -> str:
    """Describe why `text` is no id of a model; "" = it may be one."""
    provider, _, name = text.partition("/")
    provider_ids = [*(status.id for status in answer.providers), SCRIPTED_PROVIDER]
    if provider in provider_ids and name.strip():
        return ""
    problem = f"No provider {provider!r}." if name.strip() else f"{text!r} is not the name of a model."
    return f"{problem} Write PROVIDER/NAME; the providers are {', '.join(provider_ids)}."


class ProviderController(Controller):
    """Configures keys and addresses of providers, and chooses among their models."""

    def __init__(self, context: ScreenContext, models: ModelController) -> None:
        super().__init__(context)
        self._models = models

    @in_worker("picker")
    async def action_paste_key(self, name: str = "") -> None:
        """Ask for a key, then for a model of that provider, unless one is in use already."""
        from tui.dialogs.provider import KeyDialog

        question = queries.ModelsQuery(discover=False)
        answer = await self.context.query(question, queries.ModelsAnswer, "Couldn't list the providers.")
        if answer is None:
            return
        if name == ADDRESS:
            await self._add_address()
            return
        provider = await self._choose_provider(answer, name)
        if provider is None:
            return
        key = await self.context.ask(KeyDialog(provider.label))
        if not key or not await self.context.submit(commands.ProviderConfigure(provider=provider.id, key=key)):
            return
        if self.context.state.shown_model.startswith(f"{provider.id}/"):
            self.context.notify_user(f"The key for {provider.label} is saved.", "It is used from your next message.")
        elif model := await self._models.pick_new_model(provider.id):
            await self.context.submit(commands.ModelSet(model=model))

    async def _choose_provider(self, answer: queries.ModelsAnswer, name: str) -> ProviderStatus | None:
        """Return the provider that was named, or chosen from a list; a wrong name is reported."""
        remote = {provider.id: provider for provider in answer.providers if not provider.local}
        if name in remote:
            return remote[name]
        if name:
            problem = f"No provider {name!r} takes a key. Choose from {', '.join(remote)}."
            self.context.notify_user(problem, is_error=True)
            return None
        notes = {provider.id: f"in use: {provider.key}" if provider.key else "" for provider in remote.values()}
        options = [PickerOption(provider.id, provider.label, notes[provider.id]) for provider in remote.values()]
        options.append(PickerOption(ADDRESS, "Your own server…", "any address"))
        choice = await self.context.ask(PickerDialog("Paste a key for…", options))
        if choice == ADDRESS:
            await self._add_address()
        return remote.get(choice or "")

    async def _add_address(self) -> None:
        from tui.dialogs.provider import AddressDialog

        answer = await self.context.ask(AddressDialog())
        if answer is None or not await self.context.submit(answer):
            return
        if model := await self._models.pick_new_model(answer.provider, has_key=bool(answer.key)):
            await self.context.submit(commands.ModelSet(model=model))

    # The first run

    async def ask_how_to_begin(self, models: queries.ModelsAnswer, request: SessionRequest) -> SessionRequest | None:
        """Ask how to start without a configured model; None = the user leaves."""
        while True:
            answer = await self._ask_on_welcome(models, request)
            match answer:
                case None:
                    return None
                case SessionRequest(model=model):
                    if not model or await self._save_default_model(model):
                        return answer
                case commands.ProviderConfigure(provider=provider):
                    if await self.context.submit(answer):
                        model = await self._models.pick_new_model(provider, has_key=bool(answer.key))
                        if model and await self._save_default_model(model):
                            return SessionRequest(model=model, mode=request.mode)
            fresh_models = await self.context.query(queries.ModelsQuery(discover=False), queries.ModelsAnswer)
            models = fresh_models or models

    async def _ask_on_welcome(
        self, models: queries.ModelsAnswer, request: SessionRequest
    ) -> SessionRequest | commands.ProviderConfigure | None:
        """Show the welcome dialog until there is an answer that can be acted on; None = leave."""
        from tui.dialogs.provider import AddressDialog, WelcomeDialog

        while True:
            welcome = WelcomeDialog(models, request)
            search = self.context.start(self._search_models, welcome, group="welcome", exclusive=True)
            answer = await self.context.ask(welcome)
            search.cancel()
            if answer == "address":
                configuration = await self.context.ask(AddressDialog())
            elif answer == "other":
                configuration = await self._ask_key_for_other(models)
            else:
                return answer
            if configuration is not None:
                return configuration

    async def _ask_key_for_other(self, models: queries.ModelsAnswer) -> commands.ProviderConfigure | None:
        from tui.dialogs.provider import KeyDialog

        keyless = {provider.id: provider for provider in models.providers if not provider.local and not provider.key}
        options = [PickerOption(provider.id, provider.label) for provider in keyless.values()]
        choice = await self.context.ask(PickerDialog("Paste a key for…", options))
        if not choice:
            return None
        key = await self.context.ask(KeyDialog(keyless[choice].label))
        return commands.ProviderConfigure(provider=choice, key=key) if key else None

    async def _search_models(self, welcome: WelcomeDialog) -> None:
        """Discover model servers, which takes a moment; the welcome dialog is open meanwhile."""
        answer = await self.context.query(queries.ModelsQuery(), queries.ModelsAnswer)
        if answer is not None:
            welcome.show_models(answer)

    async def _save_default_model(self, model: str) -> bool:
        """Make a model the default. Return False for a rejection, which was reported."""
        provider = model.partition("/")[0]
        return await self.context.submit(commands.ProviderConfigure(provider=provider, model=model))
