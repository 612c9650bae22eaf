"""The controller of pages (keys, help, context, rules, servers), and of the user's themes and keys."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.protocol import commands, queries
from core.state.asides import AsideState
from tui.dialogs.aside import AsideDialog
from tui.dialogs.listings.context import ContextDialog, MemoryDialog, RulesDialog, SkillsDialog
from tui.dialogs.listings.servers import ServersDialog
from tui.dialogs.listings.settings import SettingsDialog
from tui.dialogs.listings.tools import HooksDialog, ToolsDialog
from tui.dialogs.pages import (
    build_help_page,
    build_manual_page,
    build_preview_page,
    build_settings_page,
    build_status_page,
)
from tui.dialogs.picker import PickerDialog, PickerOption
from tui.keymap import get_keymap, select_known_keys
from tui.notices import describe_part
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.attention import AttentionController
from tui.screens.controllers.copying import CopyController
from tui.screens.controllers.guide import GuideController
from tui.screens.controllers.panes import PaneController
from tui.search.key_help import KeyHelpDialog, list_scopes
from tui.search.palette import PaletteDialog, list_palette_entries
from tui.terminal.capabilities import find_real_depth
from tui.text import fit_line
from tui.themes.appearance import Appearance
from tui.themes.building import FAMILIES, read_pygments_style, read_theme_files
from tui.widgets.status_bar import describe_mode, describe_model, list_effort, list_facts


class AsideController(Controller):
    """Asks side questions, and shows their answers over the conversation."""

    def __init__(self, context: ScreenContext, copying: CopyController) -> None:
        super().__init__(context)
        self._copying = copying
        self._dialog: AsideDialog | None = None

    def action_ask(self, question: str = "") -> None:
        """Ask a side question; without words, show the answers of this session again."""
        asides = self.context.state.asides
        if question.strip():
            identity = f"aside_{secrets.token_hex(8)}"
            asides[identity] = AsideState(question.strip())
            self.context.prompt.past.add(f"/btw {question}")
            self.context.start(self._submit, identity, question.strip(), group="asides")
        elif asides:
            self._show(next(reversed(asides)))
        else:
            self.context.notify_user("Usage: /btw QUESTION", "It is answered beside the work.", is_error=True)

    async def _submit(self, identity: str, question: str) -> None:
        if await self.context.submit(commands.AsideAsk(text=question, id=identity)):
            self._show(identity)
        else:
            self.context.state.asides.pop(identity, None)

    def _show(self, identity: str) -> None:
        self._dialog = AsideDialog(self.context.state.asides, identity, self._copying.copy, self._stop)
        self.context.show(self._dialog)

    def _stop(self, identity: str) -> None:
        self.context.submit_soon(commands.AsideStop(id=identity))

    def show_progress(self) -> None:
        """Show what has come of an answer, if it is on screen."""
        if self._dialog is not None and self._dialog.is_mounted:
            self._dialog.show_answer()


class PageController(Controller):
    """Shows pages, and adopts the user's colours and keys."""

    def __init__(
        self, context: ScreenContext, panes: PaneController, attention: AttentionController, guide: GuideController
    ) -> None:
        super().__init__(context)
        self._panes, self._attention, self._guide = panes, attention, guide
        self._own_themes: frozenset[str] = frozenset()
        self.part_notice = ""  # that the project is a part of a repository

    async def adopt_settings(self) -> None:
        """Apply the user's themes and keys; mistakes are reported and skipped."""
        app: Any = self.context.screen.app
        settings = await self.context.query(queries.SettingsQuery(), queries.SettingsAnswer)
        if settings is None:
            return
        self._attention.adopt(settings.notify)
        self.part_notice = describe_part(settings.above)
        await self._adopt_appearance(settings)
        self.context.prompt.use_keys(settings.prompt_keys)
        if settings.keymap:
            from tui.settings_check import check_interface

            for key, reason, hint in check_interface("", settings.keymap):
                self.context.notify_user(f"{'.'.join(key)}: {reason}.", hint, is_error=True)
        keymap = select_known_keys(settings.keymap)
        app.keymap = {**keymap, **app.keymap}
        app.set_keymap(app.keymap)

    async def _adopt_appearance(self, settings: queries.SettingsAnswer) -> None:
        """Apply the settings of the screen; report mistakes in them or in a theme's file."""
        app: Any = self.context.screen.app
        looks: Appearance = app.appearance
        looks.set_depth(await find_real_depth(app.capabilities) if settings.colors == "auto" else settings.colors)
        looks.set_glyphs(settings.glyphs, is_plain=settings.plain)
        problems = await self._load_themes(settings.themes) if settings.themes else []
        if not looks.set_syntax(settings.syntax):
            problems.append(f"ui.syntax: Pygments has no style {settings.syntax!r}.")
        looks.choose(settings.theme)
        if not app.show_appearance():
            problems.append(f"ui.theme: there is no theme {settings.theme!r}. /theme lists them.")
            looks.choose("")
            app.show_appearance()
        for problem in problems:
            self.context.notify_user(problem, is_error=True)

    async def _load_themes(self, directory: str) -> list[str]:
        """Load the user's themes. Return their mistakes."""
        app: Any = self.context.screen.app
        base_themes = {name: theme for name, theme in app.available_themes.items() if name not in self._own_themes}
        theme_files = await asyncio.to_thread(read_theme_files, Path(directory), base_themes)
        self._own_themes = frozenset(theme.name for theme in theme_files.themes)
        for theme in theme_files.themes:
            app.register_theme(theme)
        return list(theme_files.problems)

    def action_choose_theme(self, name: str = "") -> None:
        """Choose the theme by name, or from a list, and save it."""
        app: Any = self.context.screen.app
        if name in {*FAMILIES, *app.available_themes}:
            self._set_theme(name)
            return
        options = [PickerOption(family, family, "dark or light, like the terminal") for family in FAMILIES]
        options += [PickerOption(theme_name, theme_name) for theme_name in sorted(app.available_themes)]
        before = app.appearance.chosen
        picker = PickerDialog("Theme: moving previews it", options, current=before or app.theme)
        picker.preview = self._show_theme
        self.context.show(picker, lambda choice: self._set_theme(choice) if choice else self._show_theme(before))

    def _set_theme(self, name: str) -> None:
        self._show_theme(name)
        self.context.submit_soon(commands.ThemeKeep(theme=name))

    def _show_theme(self, name: str) -> None:
        app: Any = self.context.screen.app
        app.appearance.choose(name)
        app.show_appearance()

    def action_show_commands(self, _: str = "") -> None:
        """Search all commands, and carry out the one that is chosen."""
        entries = list_palette_entries(get_keymap(self.context.screen.app))
        by_id = {palette_entry.id: palette_entry for palette_entry in entries}

        def carry_out(entry_id: str | None) -> None:
            if entry_id is not None:
                self._guide.note_chosen(entry_id)
                entry = by_id[entry_id]
                self.context.screen.call_later(self._panes.run_scoped_action, entry.scope, entry.action)

        self.context.show(PaletteDialog(entries, self._guide.chosen), carry_out)

    def action_show_keys(self, _: str = "") -> None:
        """Show the help of the focused pane and its keys, then all other keys."""
        app: Any = self.context.screen.app
        self.context.show(KeyHelpDialog(get_keymap(app), list_scopes(app.screen.focused or app.screen)))

    @in_worker("picker")
    async def action_show_help(self, topic: str = "") -> None:
        """Show the commands of the prompt, or a page of the manual."""
        answer = (
            await self.context.query(queries.ManualQuery(page=topic), queries.ManualAnswer) or queries.ManualAnswer()
        )
        if topic and not answer.text:
            names = ", ".join(page.name for page in answer.pages)
            self.context.notify_user(f"The manual has no page {fit_line(topic, 60)!r}.", f"Pages: {names}.")
            return
        self.context.show(build_manual_page(answer) if answer.text else build_help_page(answer))

    @in_worker("picker")
    async def action_show_config(self, key: str = "") -> None:
        """Show the settings for searching and editing; or a single one, or a table, with their mistakes."""
        question = queries.ConfigQuery(key=key.strip())
        answer = await self.context.query(question, queries.ConfigAnswer, "Couldn't load the settings.")
        if answer is not None and key.strip():
            self.context.show(build_settings_page(answer))
        elif answer is not None:
            app: Any = self.context.screen.app
            themes = (*FAMILIES, *sorted(app.available_themes))
            self.context.show(SettingsDialog(answer, self._save_setting, {"ui.theme": themes}))

    async def _save_setting(self, command: commands.SettingKeep) -> queries.ConfigAnswer | commands.Reject:
        """Save a setting; apply it if it concerns the screen."""
        if command.key == "ui.syntax" and command.text and read_pygments_style(command.text) is None:
            message = f"ui.syntax: Pygments has no style {command.text!r}."
            return commands.Reject(code="style_unknown", message=message, hint="Such as monokai, nord or friendly.")
        reply = await self.context.bridge.submit(command)
        if isinstance(reply, commands.Reject):
            return reply
        if command.key.startswith(("ui.", "notify.")):
            await self.adopt_settings()
        answer = await self.context.query(queries.ConfigQuery(), queries.ConfigAnswer)
        return answer or commands.Reject(code="unanswered", message="Couldn't load the settings.")

    def action_show_status(self, _: str = "") -> None:
        """Show all facts of the status bar in words, including those that do not fit it."""
        state = self.context.state
        facts = [describe_mode(state), describe_model(state, ""), *list_effort(state), *list_facts(state)]
        self.context.show(build_status_page(facts, get_keymap(self.context.screen.app)))

    @in_worker("picker")
    async def action_show_context(self, _: str = "") -> None:
        """Show the parts of the model's context, with the engine's token counts."""
        answer = await self.context.query(queries.ContextQuery(), queries.ContextAnswer, "No context yet.")
        if answer is not None:
            self.context.show(ContextDialog(answer, self._drop_part))

    async def _drop_part(self, part: str) -> queries.ContextAnswer | None:
        if not await self.context.submit(commands.ContextDrop(part=part)):
            return None
        await self.context.query(queries.IdleQuery(), queries.IdleAnswer)
        return await self.context.query(queries.ContextQuery(), queries.ContextAnswer)

    @in_worker("picker")
    async def action_show_rules(self, _: str = "") -> None:
        """Show the agent's rules with their reasons, and the file of a chosen one."""
        answer = await self.context.query(queries.RulesQuery(), queries.RulesAnswer)
        if answer is not None and (path := await self.context.ask(RulesDialog(answer))):
            await self._panes.preview_file(path)

    @in_worker("picker")
    async def action_show_hooks(self, _: str = "") -> None:
        """Show the hooks and their last results, and the file of a chosen one."""
        answer = await self.context.query(queries.HooksQuery(), queries.HooksAnswer)
        if answer is not None and (path := await self.context.ask(HooksDialog(answer))):
            await self._panes.preview_file(path)

    @in_worker("picker")
    async def action_show_tools(self, _: str = "") -> None:
        """Show the model's tools, their token costs, and the reasons of absent ones."""
        answer = await self.context.query(queries.ToolsQuery(), queries.ToolsAnswer, "Couldn't list the tools yet.")
        if answer is not None:
            self.context.show(ToolsDialog(answer))

    @in_worker("picker")
    async def action_show_skills(self, _: str = "") -> None:
        """Show the skills that the agent knows and why, and the file of a chosen one."""
        answer = await self.context.query(queries.SkillsQuery(), queries.SkillsAnswer)
        if answer is not None and (path := await self.context.ask(SkillsDialog(answer))):
            await self._panes.preview_file(path)

    @in_worker("picker")
    async def action_show_servers(self, _: str = "") -> None:
        """Show the MCP servers, and switch them and their tools."""
        answer = await self.context.query(queries.ServersQuery(), queries.ServersAnswer, "No servers yet.")
        if answer is not None:
            self.context.show(ServersDialog(answer, self._control_server, self._show_servers))

    async def _show_servers(self) -> queries.ServersAnswer | None:
        return await self.context.query(queries.ServersQuery(), queries.ServersAnswer)

    async def _control_server(self, command: commands.ServerControl) -> queries.ServersAnswer | None:
        if not await self.context.submit(command):
            return None
        await self.context.query(queries.IdleQuery(), queries.IdleAnswer)
        return await self._show_servers()

    @in_worker("picker")
    async def action_explain_call(self, text: str = "") -> None:
        """Show the prompt of a user's command or a skill without running anything."""
        if not text:
            self.context.notify_user("Usage: /explain COMMAND ARGUMENTS", is_error=True)
            return
        question = queries.CommandPreviewQuery(text=f"/{text.removeprefix('/')}")
        answer = await self.context.query(question, queries.CommandPreviewAnswer, "Can't show that.")
        if answer is not None:
            self.context.show(build_preview_page(answer))

    @in_worker("picker")
    async def action_show_memory(self, text: str = "") -> None:
        """Save a note about the project; without words, list saved and proposed notes."""
        if text:
            if await self.context.submit(commands.MemoryAdd(text=text)):
                self.context.notify_user("Saved for later sessions.", "/memory lists the notes.")
            return
        answer = await self.context.query(queries.MemoryQuery(), queries.MemoryAnswer)
        if answer is not None:
            self.context.show(MemoryDialog(answer.notes, self._judge_notes))

    async def _judge_notes(self, verdicts: Sequence[commands.MemoryJudge]) -> Sequence[queries.MemoryNote] | None:
        for verdict in verdicts:
            if not await self.context.submit(verdict):
                break
        await self.context.query(queries.IdleQuery(), queries.IdleAnswer)
        answer = await self.context.query(queries.MemoryQuery(), queries.MemoryAnswer)
        return None if answer is None else answer.notes
