"""The controller of providers: keys and addresses of model APIs, at the first run and at any time (`/login`).

A key is kept for its address alone and never shown. At the first run the choice is kept as the default; nothing waits
for the search of local servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.protocol import commands, queries
from core.protocol.models import ProviderStatus
from tui.bridge import SessionRequest
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.choices.models import ModelController
from tui.screens.dialogs.picker import PickerDialog, PickerOption

if TYPE_CHECKING:
    from tui.screens.dialogs.welcome import WelcomeDialog

ADDRESS: Final = "address"


class ProviderController(Controller):
    """Takes keys and addresses, and the models that they give access to."""

    def __init__(self, context: ScreenContext, models: ModelController) -> None:
        super().__init__(context)
        self._models = models

    @in_worker("picker")
    async def action_paste_key(self, name: str = "") -> None:
        """Ask for a key, then for a model of that provider, unless one is in use already."""
        from tui.screens.dialogs.provider import KeyDialog

        question = queries.ModelsQuery(discover=False)
        answer = await self.context.query(question, queries.ModelsAnswer, "The providers can't be listed.")
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
            self.context.notify_user(f"The key for {provider.label} is kept.", "The next message uses it.")
        elif model := await self._models.pick_new_model(provider.id):
            await self.context.submit(commands.ModelSet(model=model))

    async def _choose_provider(self, answer: queries.ModelsAnswer, name: str) -> ProviderStatus | None:
        """Return the provider that was named, or chosen from a list; a wrong name is reported."""
        remote = {provider.id: provider for provider in answer.providers if not provider.local}
        if name in remote:
            return remote[name]
        if name:
            problem = f"There is no provider {name!r} that takes a key; there are {', '.join(remote)}."
            self.context.notify_user(problem, is_error=True)
            return None
        notes = {provider.id: f"in use: {provider.key}" if provider.key else "" for provider in remote.values()}
        options = [PickerOption(provider.id, provider.label, notes[provider.id]) for provider in remote.values()]
        options.append(PickerOption(ADDRESS, "A server of your own…", "any address"))
        choice = await self.context.ask(PickerDialog("Paste a key for…", options))
        if choice == ADDRESS:
            await self._add_address()
        return remote.get(choice or "")

    async def _add_address(self) -> None:
        from tui.screens.dialogs.provider import AddressDialog

        answer = await self.context.ask(AddressDialog())
        if answer is None or not await self.context.submit(answer):
            return
        if model := await self._models.pick_new_model(answer.provider, has_key=bool(answer.key)):
            await self.context.submit(commands.ModelSet(model=model))

    # The first run

    async def ask_how_to_begin(self, models: queries.ModelsAnswer, request: SessionRequest) -> SessionRequest | None:
        """Ask how to begin when no model is configured; None = the user wants to leave."""
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
        from tui.screens.dialogs.provider import AddressDialog
        from tui.screens.dialogs.welcome import WelcomeDialog

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
        from tui.screens.dialogs.provider import KeyDialog

        keyless = {provider.id: provider for provider in models.providers if not provider.local and not provider.key}
        options = [PickerOption(provider.id, provider.label) for provider in keyless.values()]
        choice = await self.context.ask(PickerDialog("Paste a key for…", options))
        if not choice:
            return None
        key = await self.context.ask(KeyDialog(keyless[choice].label))
        return commands.ProviderConfigure(provider=choice, key=key) if key else None

    async def _search_models(self, welcome: WelcomeDialog) -> None:
        """Search for model servers, which take a moment to answer; the welcome dialog is there at once."""
        answer = await self.context.query(queries.ModelsQuery(), queries.ModelsAnswer)
        if answer is not None:
            welcome.show_models(answer)

    async def _save_default_model(self, model: str) -> bool:
        """Make a model the default. False: it can't be, and that was reported."""
        provider = model.partition("/")[0]
        return await self.context.submit(commands.ProviderConfigure(provider=provider, model=model))
