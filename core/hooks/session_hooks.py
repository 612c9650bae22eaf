"""The hooks of one session: selects the hooks of an event, runs them, and combines their answers into one outcome.

A matcher may name a tool by any name that it has in a dialect: a guard that runs once too often costs a moment, one
that is not run guards nothing. Hooks of an event run one after the other, in the order of the table, and see the
changes of earlier ones. The strictest answer decides. An answer never extends rights: an allowed call is decided as if
there were no hooks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from core.hooks.answers import HookAnswer, HookRun, find_strictest_answer, read_answer
from core.hooks.dialect_names import RULES, HookEvent
from core.hooks.hook_files import MISSING, HookTable
from core.hooks.parsing import Hook, explain_pattern, matches_glob, matches_pattern
from core.hooks.payload import HookCall, HookScene, build_payload, encode_payload
from core.hooks.runner import HookRunner
from core.patterns import compile_lazily
from core.permissions.rules import PermissionChoice
from core.protocol.events import AnyEvent, HookRan, HookResult, Notice

_CONDITION = compile_lazily(r"(?P<tool>[A-Za-z_]\w*)(?:\((?P<pattern>.*)\))?", re.DOTALL)
MAX_RECORDED = 500  # characters of a hook's message in its record
SLOW = 4.0  # seconds after which the user is notified of a running hook
HOOKS_HINT = "/hooks lists all hooks."


def select_hooks(hooks: Iterable[Hook], subjects: Sequence[str], texts: Sequence[str] = ()) -> list[Hook]:
    """Select the hooks for an event, without duplicate commands. `subjects`: candidates for matchers (names of a tool,
    a command, a type); `texts`: candidates for the pattern of a condition (the command, the path)."""
    hooks_by_command: dict[tuple[str, str], Hook] = {}
    for hook in hooks:
        if is_concerned(hook, subjects, texts) and _meets_condition(hook, subjects, texts):
            hooks_by_command.setdefault((hook.command, hook.home), hook)
    return list(hooks_by_command.values())


def is_concerned(hook: Hook, subjects: Sequence[str], texts: Sequence[str] = ()) -> bool:
    """True if a hook's matcher matches one of the subjects, or the hook has none. A glob is matched with the texts,
    too; an invalid pattern of a hook that fails closed matches everything."""
    is_pattern = explain_pattern(hook.matcher) is None
    if not hook.matcher or not subjects or (hook.fails_closed and not is_pattern):
        return True
    if hook.is_glob or not is_pattern:
        return matches_glob(hook.matcher, (*subjects, *texts))
    return matches_pattern(hook.matcher, subjects, is_exact=hook.dialect == "claude")


def _meets_condition(hook: Hook, subjects: Sequence[str], texts: Sequence[str]) -> bool:
    """True if a call matches the hook's `if`; an invalid condition matches everything."""
    match = _CONDITION.fullmatch(hook.condition.strip())
    if not hook.condition or match is None:
        return True
    if match["tool"] not in subjects:
        return False
    pattern = re.sub(r"^(?:\./|/+)", "", (match["pattern"] or "*").replace(":*", "*"))
    parts = [part.strip() for text in texts for part in (text, *re.split(r"&&|\|\||[;|\n]", text))]
    parts += [] if "/" in pattern else [text.rpartition("/")[2] for text in texts]  # in any directory
    return any(fnmatchcase(part, pattern) or (pattern.endswith(" *") and part == pattern[:-2]) for part in parts)


class HookOccasion(Struct, frozen=True, kw_only=True):
    """One occurrence of an event. `subjects`, `texts`: see `select_hooks`; `fields`: the specific fields of the event;
    `loops`: number of times in a row that hooks have made the agent continue."""

    event: HookEvent
    subjects: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    fields: Mapping[str, Any] = {}
    call: HookCall | None = None
    loops: int = 0


class HookOutcome(Struct, frozen=True, kw_only=True):
    """The combined answers of all hooks of an event. `permission` None: no hook decides; `decider`: the deciding
    hook, for use in a sentence; `answers`: the hooks with their answers."""

    permission: PermissionChoice | None = None
    decider: str = ""
    reason: str = ""
    answers: tuple[tuple[Hook, HookAnswer], ...] = ()

    @property
    def is_denied(self) -> bool:
        return self.permission == "deny"

    @property
    def context(self) -> str:
        """The text that hooks add for the model, "" = none."""
        return "\n".join(answer.context for _, answer in self.answers if answer.context)

    @property
    def followup(self) -> str:
        """The agent's next instruction, "" = none."""
        return "\n".join(answer.followup for _, answer in self.answers if answer.followup)

    @property
    def changed_input(self) -> dict[str, Any] | None:
        """The arguments of the first hook that changes them."""
        return next((answer.changed_input for _, answer in self.answers if answer.changed_input is not None), None)

    @property
    def output(self) -> str | None:
        """The text that replaces the result for the model."""
        return next((answer.output for _, answer in self.answers if answer.output is not None), None)

    @property
    def ends_turn(self) -> bool:
        return any(answer.ends_turn for _, answer in self.answers)

    def describe_change(self) -> str | None:
        """Return a sentence on the hook that changed the arguments; None: none did."""
        hooks = (hook for hook, answer in self.answers if answer.changed_input is not None)
        return next((f"The hook `{hook.command[:120]}` changed this call." for hook in hooks), None)

    def describe_refusal(self) -> str | None:
        """Return a sentence on the refusal and its reason; None: it was not refused."""
        if not self.is_denied:
            return None
        reason = self.reason.strip()
        end = "" if reason.endswith((".", "!", "?", "…")) else "."
        return f"The hook {self.decider} refused it{f': {reason}' if reason else ''}{end}"


NO_OUTCOME = HookOutcome()


class SessionHooks(Struct, eq=False):
    """The hooks of one session. `load` reads all hook files; `scene` returns the present state of the session; `runner`
    None: no hook ever runs. `env`: variables that hooks set for later ones; `is_begun`: the hooks of the session's
    start have run."""

    load: Callable[[], HookTable] = HookTable
    scene: Callable[[], HookScene] | None = None
    runner: HookRunner | None = None
    emit: Callable[[AnyEvent], None] = lambda _: None
    table: HookTable | None = None
    env: dict[str, str] = field(default_factory=dict)
    is_begun: bool = False
    _has_stop: bool = False
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _notified: set[tuple[str, str]] = field(default_factory=set)

    async def refresh(self) -> None:
        """Read the hook files again; the user is notified of every problem once."""
        if self.runner is None:
            return
        self.table = await asyncio.to_thread(self.load)
        for problem in self.table.problems:
            self._notify_once(problem.source, f"{problem.source}: {problem.message}")

    def _notify_once(self, key: str, message: str) -> None:
        if (key, message) not in self._notified:
            self._notified.add((key, message))
            self.emit(Notice(level="warning", message=message[:2_000], hint=HOOKS_HINT))

    def _notify_slow(self, hook: Hook) -> None:
        """Notify the user of a slow hook while it runs."""
        message = f"Waiting for the hook {hook.describe()[:300]}, at most {hook.timeout:g} s."
        self._notify_once(f"slow {hook.id}", message)

    def has(self, *events: HookEvent) -> bool:
        """True if there are hooks for one of these events, as of the last refresh."""
        return self.table is not None and any(hook.event in events for hook in self.table.hooks)

    def pop_stop(self) -> bool:
        """Return and reset whether a hook demanded that the agent stops."""
        has_stop, self._has_stop = self._has_stop, False
        return has_stop

    def get_agent_type(self) -> str:
        """Return the subagent's type of this session, "" = it is no subagent."""
        return self.scene().agent_type if self.scene is not None else ""

    async def begin_session(self, source: str, mode: str) -> HookOutcome:
        """Run the hooks of the session's start. `source`: its reason, "startup", "resume" or "compact"."""
        fields = {"source": source, "is_background_agent": False, "composer_mode": mode}
        subjects = ("SessionStart", source)
        return await self.run(HookOccasion(event=HookEvent.SESSION_START, fields=fields, subjects=subjects))

    async def run(self, occasion: HookOccasion) -> HookOutcome:
        """Run the hooks for an event and combine their answers."""
        if self.runner is None or self.scene is None:
            return NO_OUTCOME
        if self.table is None:
            await self.refresh()
        hooks = [hook for hook in (self.table or HookTable()).hooks if hook.event is occasion.event]
        if RULES[occasion.event].continues:
            hooks = [hook for hook in hooks if hook.loops is None or occasion.loops < hook.loops]
        selected_hooks = select_hooks(hooks, occasion.subjects, occasion.texts)
        if not selected_hooks:
            return NO_OUTCOME
        async with self._lock:
            answers = [(hook, await self._run_one(hook, occasion)) for hook in selected_hooks]
        strictest_pair = find_strictest_answer(answers)
        outcome = HookOutcome(answers=tuple(answers))
        is_within = occasion.call is not None or not RULES[occasion.event].blocks
        self._has_stop = self._has_stop or (outcome.ends_turn and is_within)
        if strictest_pair is None:
            return outcome
        hook, answer = strictest_pair
        return replace(outcome, permission=answer.permission, decider=f"`{hook.command[:120]}`", reason=answer.reason)

    async def _run_one(self, hook: Hook, occasion: HookOccasion) -> HookAnswer:
        assert self.runner is not None
        assert self.scene is not None
        scene = self.scene()
        payload = build_payload(hook, scene, occasion.fields, occasion.call)
        waiting = asyncio.get_running_loop().call_later(SLOW, self._notify_slow, hook)
        try:
            run = await self.runner.run(hook, encode_payload(payload), turn=scene.turn, env=self.env)
        finally:
            waiting.cancel()
        answer = replace(read_answer(hook, run), effects=run.effects)
        self.env |= answer.env
        self.emit(_build_record(hook, run, answer, occasion.call))
        if answer.failure is not None and not answer.failure.startswith(
            MISSING
        ):  # that was reported when the files were read
            consequence = (
                "so what it guards is refused" if answer.permission == "deny" else "and what it guards continues"
            )
            self._notify_once(
                hook.id, f"The hook {hook.describe()[:300]} gave no answer, {consequence}: {answer.failure}"
            )
        if answer.message:
            self.emit(Notice(level="info", message=f"Hook {hook.command[:80]}: {answer.message}"[:2_000]))
        return answer


def _build_record(hook: Hook, run: HookRun, answer: HookAnswer, call: HookCall | None) -> HookRan:
    message = answer.failure or answer.reason or answer.message or answer.context or answer.followup
    return HookRan(
        id=hook.id,
        event=hook.event,
        command=hook.command,
        source=hook.source,
        outcome=_name_outcome(answer),
        call=call.call if call is not None else "",
        exit_code=run.exit_code,
        duration_ms=run.duration_ms,
        message=message[:MAX_RECORDED],
        effects=run.effects,
    )


def _name_outcome(answer: HookAnswer) -> HookResult:
    if answer.permission == "deny":
        return "denied"
    if answer.failure is not None:
        return "failed"
    if answer.changed_input is not None or answer.output is not None:
        return "changed"
    if answer.permission:
        return "asked" if answer.permission == "ask" else "allowed"
    return "told" if answer.context or answer.followup else "passed"
