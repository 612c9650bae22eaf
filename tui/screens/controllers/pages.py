"""The controller of the pages to read (keys, help, context), and of the user's colours and keys."""

from __future__ import annotations

from typing import Any

from core.protocol import commands, queries
from tui.keymap import check_keymap, get_keymap
from tui.screens.controller import Controller, in_worker
from tui.screens.dialogs.pages import build_context_page, build_help_page, build_keys_page
from tui.screens.dialogs.picker import PickerDialog, PickerOption


class PageController(Controller):
    """Shows pages, and adopts the user's colours and keys."""

    async def adopt_settings(self) -> None:
        """Take the user's colours and keys over; a mistake in them is reported and the rest is used."""
        app: Any = self.context.screen.app
        settings = await self.context.query(queries.SettingsQuery(), queries.SettingsAnswer)
        if settings is None:
            return
        if settings.theme in app.available_themes:
            app.theme = settings.theme
        elif settings.theme:
            problem = f"ui.theme: there is no theme {settings.theme!r}."
            self.context.notify_user(problem, "/theme lists them.", is_error=True)
        keymap, problems = check_keymap(settings.keymap)
        for problem in problems:
            self.context.notify_user(problem, is_error=True)
        app.keymap = {**keymap, **app.keymap}
        app.set_keymap(app.keymap)

    def action_choose_theme(self, name: str = "") -> None:
        """Choose the colours by name, or from a list; they are kept for later sessions."""
        app = self.context.screen.app
        if name in app.available_themes:
            self._set_theme(name)
        else:
            options = [PickerOption(each, each) for each in sorted(app.available_themes)]
            self.context.show(PickerDialog("Theme", options, current=app.theme), self._set_theme)

    def _set_theme(self, name: str | None) -> None:
        if name:
            self.context.screen.app.theme = name
            self.context.submit_soon(commands.ThemeKeep(theme=name))

    def action_show_keys(self, _: str = "") -> None:
        self.context.show(build_keys_page(get_keymap(self.context.screen.app)))

    def action_show_help(self, _: str = "") -> None:
        self.context.show(build_help_page())

    @in_worker("picker")
    async def action_show_context(self, _: str = "") -> None:
        """Show what the model is sent, by part, as the engine counts it."""
        answer = await self.context.bridge.query(queries.ContextQuery())
        if isinstance(answer, queries.ContextAnswer):
            self.context.show(build_context_page(answer))
        else:
            self.context.notify_user(getattr(answer, "message", "There is no context yet."))
