"""Candidates for the prompt: words behind `@`, `/` and `;`, earlier prompts, and the end of a path that is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from textual import on

from core.protocol import queries
from tui.chat.prompt import Prompt
from tui.chat.prompt.completing import find_typed_path
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.prompt import ChipRow
from tui.slash_commands import can_run_as_is, find_completions
from tui.text import replace_hidden
from tui.timers import start_timer

if TYPE_CHECKING:
    from textual.timer import Timer

    from tui.chat.above_prompt import CompletionList

Candidates = list[tuple[str, str]]
GHOST_WAIT: Final = 0.12  # seconds without a letter after which the end of a path is looked for
MAX_PATHS: Final = 40  # among which the end of a path is looked for
MAX_FOUND: Final = 50  # earlier prompts that a search shows
CURSOR_MARK: Final = "$0"  # position of the cursor in a snippet


class CompletionController(Controller):
    """Asks the engine for candidates, shows them above the prompt, and puts the chosen one there."""

    def __init__(self, context: ScreenContext, chips: ChipRow) -> None:
        super().__init__(context)
        self._chips = chips
        self._awaited_key = ""  # keys pressed during the search for completions
        self._own_commands: Sequence[queries.PromptCommand] = ()  # as they were when "/" was typed
        self._snippets: Sequence[queries.Snippet] = ()  # as they were when ";" was typed
        self._timer: Timer | None = None

    @on(Prompt.CompletionRequested)
    @in_worker("completion")
    async def _complete(self, event: Prompt.CompletionRequested) -> None:
        if not event.kind and not self.context.find_bar("completion"):
            return
        from tui.chat.above_prompt import CompletionList

        candidates = await self._find_candidates(event.kind, event.pattern)
        if self.context.prompt.is_searching != (event.kind == "history"):
            return
        (await self.context.ensure_bar(CompletionList, "completion")).show(event.kind, event.pattern, candidates)
        awaited_key, self._awaited_key = self._awaited_key, ""
        self.context.prompt.set_completing(bool(candidates))
        if awaited_key:
            self._handle_completion_key(Prompt.CompletionKey(awaited_key))

    async def _find_candidates(self, kind: str, pattern: str) -> Candidates:
        match kind:
            case "/":
                if len(pattern) <= 1 or not self._own_commands:
                    answer = await self.context.query(queries.CommandsQuery(), queries.CommandsAnswer)
                    self._own_commands = answer.commands if answer else ()
                return find_completions(pattern, self._own_commands)
            case "@":
                words = await self.context.query(queries.CompletionQuery(pattern=pattern), queries.CompletionAnswer)
                return [(completion.word, completion.note) for completion in words.completions] if words else []
            case ";":
                return await self._find_snippets(pattern)
            case "history":
                question = queries.PromptHistoryQuery(pattern=pattern, limit=MAX_FOUND)
                past = await self.context.query(question, queries.PromptHistoryAnswer)
                return [(text, "") for text in reversed(dict.fromkeys(past.prompts))] if past else []
        return []

    async def _find_snippets(self, pattern: str) -> Candidates:
        if self.context.prompt.text.startswith("!") or self.context.state.takes_commands:
            return []  # there it ends a command
        if len(pattern) <= 1 or not self._snippets:
            answer = await self.context.query(queries.SnippetsQuery(), queries.SnippetsAnswer)
            self._snippets = answer.snippets if answer else ()
        snippets = [snippet for snippet in self._snippets if pattern.lower() in snippet.name.lower()]
        snippets.sort(key=lambda snippet: not snippet.name.lower().startswith(pattern.lower()))
        return [(snippet.name, f"[{snippet.scope}] {snippet.description}") for snippet in snippets]

    @on(Prompt.CompletionKey)
    def _handle_completion_key(self, event: Prompt.CompletionKey) -> None:
        prompt = self.context.prompt
        completion = cast("CompletionList | None", self.context.find_bar("completion"))
        if completion is None:
            if prompt.is_searching:
                prompt.end_search(None)
            elif event.action == "send":  # the list was closed between the key and this message
                prompt.submit()
            return
        match event.action:
            case "next":
                completion.action_cursor_down()
            case "previous":
                completion.action_cursor_up()
            case "accept" | "send" if completion.pattern != prompt.completed_pattern:
                self._awaited_key = event.action  # the candidates belong to an outdated text
            case "send" if not prompt.is_searching and _offers_nothing(completion, prompt.completed_pattern):
                self._close_completion(completion)
                prompt.submit()
            case "accept" | "send" if completion.selected_word is not None:
                self._take(completion, completion.selected_word, is_sent=event.action == "send")
            case _:
                self._close_completion(completion)
                if prompt.is_searching:
                    prompt.end_search(None)

    def _take(self, completion: CompletionList, word: str, *, is_sent: bool) -> None:
        prompt, kind = self.context.prompt, completion.kind
        is_whole = kind == "/" and can_run_as_is(prompt.text, word)
        match kind:
            case "history":
                prompt.end_search(word)
            case ";":
                text = next((snippet.text for snippet in self._snippets if snippet.name == word), "")
                before, mark, behind = text.partition(CURSOR_MARK)
                prompt.complete(before + behind, with_sign=True, cursor=len(before) if mark else None)
            case _:
                prompt.complete(f"{word} ")
        self._close_completion(completion)
        if is_whole and is_sent:
            prompt.submit()

    def _close_completion(self, completion: CompletionList) -> None:
        self.context.prompt.set_completing(False)
        completion.display = False
        self._chips.refresh_soon()

    # The end of a path, dim behind the text

    @on(Prompt.Changed)
    def _search_path_soon(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        prompt = self.context.prompt
        if self.context.state.session_id and prompt.is_at_end and find_typed_path(prompt.before_cursor):
            self._timer = start_timer(self.context.screen, GHOST_WAIT, self._search_path)

    @in_worker("ghost")
    async def _search_path(self) -> None:
        text, typed_path = self.context.prompt.text, find_typed_path(self.context.prompt.before_cursor)
        if not typed_path:
            return
        question = queries.CompletionQuery(pattern=typed_path, limit=MAX_PATHS)
        answer = await self.context.query(question, queries.CompletionAnswer)
        paths = (
            [completion.word for completion in answer.completions if completion.note in {"", "directory"}]
            if answer
            else []
        )
        ghost = next((path[len(typed_path) :] for path in paths if path.startswith(typed_path)), "")
        if ghost and replace_hidden(ghost) == ghost:
            self.context.prompt.offer_ghost(text, ghost)


def _offers_nothing(completion: CompletionList, pattern: str) -> bool:
    """Return True if Enter sends: nothing is selected, or a mention that is typed to its end."""
    return completion.selected_word is None or (completion.kind == "@" and completion.selected_word == pattern)
