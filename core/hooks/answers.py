"""The answer of a hook, parsed from its exit code and output: one record for both dialects, nested or flat.

Exit code 2 always refuses, independent of the output. The answer may be anywhere in the output. A missing answer
(another exit code, incomplete JSON, a time-out) is a failure: the event continues and the user is notified, or the
event is refused if the hook fails closed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.hooks.dialect_names import RULES
from core.hooks.parsing import Hook
from core.patterns import compile_lazily
from core.permissions.rules import STRICTNESS, PermissionChoice
from core.records import parse_json_part

REFUSING_EXIT: Final = 2
MAX_TEXT: Final = 10_000  # characters of a text in an answer
_WORDS: Final[Mapping[str, PermissionChoice | None]] = {
    "allow": "allow",
    "approve": "allow",
    "deny": "deny",
    "block": "deny",
    "ask": "ask",
    "defer": "ask",
    "continue": None,
}
_ANSWER_KEYS: Final = frozenset(
    {"hookspecificoutput", "permissiondecision", "permission", "decision", "continue", "interrupt", "followupmessage"}
    | {"additionalcontext", "updatedinput", "updatedtooloutput", "updatedmcptooloutput", "env", "stopreason"}
    | {"usermessage", "systemmessage", "agentmessage"}
)
_MENTION: Final = compile_lazily(
    r"""hook_?specific_?output|permission_?decision|["'](?:decision|permission)\\*["']\s*:""", re.I
)
_REFUSING_WORD: Final = compile_lazily(r"\b(?:den(?:y|ied)|block(?:ed)?|reject(?:ed)?|refuse[ds]?|forbidden)\b", re.I)
MOST_OBJECTS: Final = 1_000  # positions at which an object may begin


class HookRun(Struct, frozen=True, kw_only=True):
    """The end of a hook's process. `problem`: why it has no answer at all (it hung, its script is missing);
    None: it ended by itself. `effects`: its changes, in a line."""

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    problem: str | None = None
    duration_ms: int = 0
    effects: str = ""


class HookAnswer(Struct, frozen=True, kw_only=True):
    """The answer of one hook. `permission` None: it decides nothing; `reason`: of a refusal, for the model; `message`:
    for the user; `context`: additional text for the model; `followup`: the agent's next instruction; `changed_input`:
    replaced arguments; `output`: the replaced result; `env`: variables for later hooks; `ends_turn`: the agent must
    stop; `failure`: why there is no valid answer; `effects`: its changes, in a line."""

    permission: PermissionChoice | None = None
    reason: str = ""
    message: str = ""
    context: str = ""
    followup: str = ""
    changed_input: dict[str, Any] | None = None
    output: str | None = None
    env: Mapping[str, str] = {}
    ends_turn: bool = False
    failure: str | None = None
    effects: str = ""


def read_answer(hook: Hook, run: HookRun) -> HookAnswer:
    """Parse the answer of a hook's run; never raises."""
    fields, failure = _read_output(hook, run) if run.problem is None else ({}, run.problem)
    try:
        answer = _read_fields(hook, fields) if fields else HookAnswer()
    except _Unreadable as problem:
        answer, failure = HookAnswer(), str(problem)
    if failure is None and not fields:
        answer = _read_text(hook, run)
    if run.exit_code == REFUSING_EXIT and run.problem is None:
        return _refuse(hook, answer, answer.reason or cut_text(run.stderr.strip()) or "its exit code is 2.")
    if failure is None and run.exit_code != 0 and not fields:
        failure = f"it ended with {run.exit_code}{_format_last_line(run.stderr)}"
    if failure is None:
        return answer
    if hook.fails_closed and answer.permission != "deny":
        return _refuse(hook, HookAnswer(failure=failure), f"the hook gave no answer: {failure}")
    return msgspec.structs.replace(answer, failure=failure)


def _refuse(hook: Hook, answer: HookAnswer, reason: str) -> HookAnswer:
    """Return a refusal in the sense of the event: a denial, an instruction to continue, or context for the model."""
    rules = RULES[hook.event]
    if rules.blocks:
        return msgspec.structs.replace(answer, permission="deny", reason=reason)
    if rules.continues and answer.failure is None:
        return msgspec.structs.replace(answer, followup=answer.followup or reason)
    return answer if answer.failure is not None else msgspec.structs.replace(answer, context=answer.context or reason)


class _Unreadable(Exception):
    """A field of an answer has an invalid value."""


def _read_output(hook: Hook, run: HookRun) -> tuple[dict[str, Any], str | None]:
    """Return the printed object, {} = none, and the failure if one is missing. Other lines may surround it; of several
    answers, a refusal takes precedence."""
    text = run.stdout.strip().removeprefix("\ufeff")
    objects = find_objects(text)
    answers = [candidate for candidate in objects if _ANSWER_KEYS & _fold(candidate).keys()]
    refusal = next(filter(_is_refusal, answers), None)
    is_for_model = RULES[hook.event].takes_text and hook.dialect == "claude" and not text.startswith("{")
    if refusal is not None or is_for_model:  # text for the model may contain examples of other answers
        return refusal or {}, None
    if answers:
        return answers[-1], None
    return objects[0] if len(objects) == 1 else {}, _explain_no_answer(hook, run, text, len(objects))


def _explain_no_answer(hook: Hook, run: HookRun, text: str, objects: int) -> str | None:
    """Explain the failure of an output without an answer; None: it is no failure, as nothing suggests a refusal."""
    blocks = RULES[hook.event].blocks
    if text.startswith("{") and objects != 1:
        return "its output is not one complete JSON object"
    if _MENTION.search(text):
        return "its output has no complete JSON object with an answer"
    if _MENTION.search(run.stderr) and find_objects(run.stderr):
        return "its answer is on standard error, which is not read"
    if objects == 1:
        is_odd = blocks and _REFUSING_WORD.search(text)
        return "its output mentions a refusal in an unknown form" if is_odd else None
    is_text = not text or hook.dialect == "claude" or run.exit_code != 0 or not blocks
    return None if is_text else "its output is not JSON"


def find_objects(text: str) -> list[dict[str, Any]]:
    """Find the outermost JSON objects in a text."""
    decoder, objects, start = json.JSONDecoder(), list[dict[str, Any]](), text.find("{")
    for _ in range(MOST_OBJECTS):
        if start < 0:
            break
        end = start + 1
        with suppress(ValueError):
            value, end = parse_json_part(decoder, text, start)
            objects += [value] if isinstance(value, dict) else []
        start = text.find("{", end)
    return objects


def _is_refusal(fields: dict[str, Any]) -> bool:
    both = _flatten(fields)
    words = (str(both.get(key, "")).strip().lower() for key in ("permissiondecision", "permission", "decision"))
    return any(_WORDS.get(word) == "deny" for word in words) or _is_false(both.get("continue"))


def _is_false(value: object) -> bool:
    return value is False or (isinstance(value, str) and value.strip().lower() == "false")


def _read_text(hook: Hook, run: HookRun) -> HookAnswer:
    """Return the answer of a hook that printed plain text: context, for events with `takes_text` of Claude's
    dialect."""
    text = run.stdout.strip()
    takes = hook.dialect == "claude" and RULES[hook.event].takes_text and run.exit_code == 0
    return HookAnswer(context=cut_text(text)) if text and takes else HookAnswer()


def _read_fields(hook: Hook, fields: Mapping[str, Any]) -> HookAnswer:
    both = _flatten(fields)
    word = _get_text(both, "permissionDecision", "permission", "decision").strip()
    if word.lower() not in {"", *_WORDS}:
        raise _Unreadable(f"{word[:40]!r} is not a decision: allow, ask or deny")
    permission = _WORDS.get(word.lower())
    reason = cut_text(_get_text(both, "permissionDecisionReason", "agent_message", "agentMessage", "reason"))
    message = cut_text(_get_text(both, "user_message", "userMessage", "systemMessage"))
    stops = _is_false(both.get("continue")) or both.get("interrupt") is True
    stop_reason = cut_text(_get_text(both, "stopReason"))
    updated_input = both.get("updatedinput")
    if updated_input is not None and not isinstance(updated_input, dict):
        raise _Unreadable("the changed input is not an object")
    answer = HookAnswer(
        permission=permission,
        reason=reason or message,
        message=message or stop_reason,
        context=cut_text(_get_text(both, "additionalContext", "additional_context")),
        followup=cut_text(_get_text(both, "followup_message", "followupMessage")),
        changed_input=updated_input,
        output=_read_replaced_output(both),
        env=_read_env(both.get("env")),
        ends_turn=stops,
    )
    rules = RULES[hook.event]
    if stops and rules.blocks:
        return msgspec.structs.replace(answer, permission="deny", reason=answer.reason or stop_reason)
    if permission == "deny" and not rules.blocks and not stops:
        return msgspec.structs.replace(_refuse(hook, answer, reason or message or "it refused."), permission=None)
    return answer


def _fold(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with folded keys: `permission_decision` equals `permissionDecision`."""
    return {key.replace("_", "").lower(): value for key, value in fields.items()}


def _flatten(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an answer with folded keys, with Claude's nested fields moved to the top level, as in Cursor's answers."""
    outer = _fold(fields)
    inner = outer.get("hookspecificoutput")
    both = {**outer, **_fold(inner)} if isinstance(inner, dict) else outer
    decision = both.get("decision")
    if not isinstance(decision, dict):
        return both
    interrupt = decision.get("interrupt")
    return {**both, "decision": decision.get("behavior"), "reason": decision.get("message"), "interrupt": interrupt}


def _get_text(fields: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = fields.get(name.replace("_", "").lower())
        if isinstance(value, str) and value:
            return value
        if value is not None and not isinstance(value, str):
            raise _Unreadable(f"{name} is not text")
    return ""


def _read_replaced_output(fields: Mapping[str, Any]) -> str | None:
    for name in ("updatedtooloutput", "updatedmcptooloutput"):
        if (value := fields.get(name)) is not None:
            return cut_text(value if isinstance(value, str) else msgspec.json.encode(value).decode(), 100_000)
    return None


def _read_env(variables: object) -> Mapping[str, str]:
    if not isinstance(variables, dict):
        return {}
    return {
        name: value
        for name, value in list(variables.items())[:100]
        if name.isidentifier() and isinstance(value, str) and "\0" not in value and len(value) < MAX_TEXT
    }


def cut_text(text: str, limit: int = MAX_TEXT) -> str:
    """Truncate a text of a hook, with a note on the omitted part."""
    return text if len(text) <= limit else f"{text[:limit]}\n[… {len(text) - limit:,} characters left out]"


def _format_last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""


def find_strictest_answer(answers: Sequence[tuple[Hook, HookAnswer]]) -> tuple[Hook, HookAnswer] | None:
    """Return the strictest answer (deny, ask, allow), of equals the first; None = no hook decides."""
    decisions = [(STRICTNESS[answer.permission], (hook, answer)) for hook, answer in answers if answer.permission]
    return max(decisions, key=lambda decision: decision[0])[1] if decisions else None
