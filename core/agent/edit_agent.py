"""The edit agent: what rules could not decide is read, analysed and planned by the model of the `apply` route.

Its plan of line ranges is applied from the bottom up as one batch, and taken only when nothing changed that the draft
does not speak of and nothing broke. Two tries; then the edit is refused and nothing was changed. What the calls take
counts in the turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from contextlib import suppress

from msgspec.structs import replace

from core.agent.session import Route, SessionContext
from core.agent.streaming import closed_after
from core.agent.tags import as_data, tagged
from core.edits.breakage import first_flaw
from core.edits.candidates import EditError
from core.edits.line_ranges import apply_plan, numbered, parse_plan, strayed
from core.edits.neighbourhood import astray
from core.errors import ProviderError
from core.prompts import render
from core.protocol.messages import AssistantMessage, Message, Usage, UserMessage
from core.providers.base import ModelRequest, TextDelta, UsageReport
from core.tools.base import EditOrder

TRIES = 2
LONGEST = 400_000  # characters of a file that a model is sent
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


async def worked_out(session: SessionContext, order: EditOrder) -> str:
    """The text of the file after the edit. Raises `EditError` when no try gave one that may be taken."""
    if len(order.text) > LONGEST:
        raise _refused(order, f"the file is too long to have it worked out ({len(order.text):,} characters)")
    messages: list[Message] = [UserMessage(content=_asked(order))]
    problem = ""
    for _ in range(TRIES):
        try:
            answer = await _answer(session, messages)
        except ProviderError as error:
            raise _refused(order, f"the model that was to work it out failed ({error.message})") from error
        try:
            return await asyncio.to_thread(_taken, order, answer)
        except EditError as error:
            problem = error.message
        messages += [
            AssistantMessage(content=answer or "(nothing)"),
            UserMessage(content=f"This plan was not taken: {problem}\nGive a corrected plan, or an empty list."),
        ]
    raise _refused(order, f"a model did not find out either ({problem.rstrip('.')})")


def _refused(order: EditOrder, why: str) -> EditError:
    return EditError(
        f"{order.problem.rstrip('.')}; {why}.",
        hint="Nothing was changed. Put a line of the file before and after each change, or use search_replace.",
    )


def _asked(order: EditOrder) -> str:
    """The parts as they are, since their lines are compared afterwards; what is in one can't know how it ends."""
    parts = {
        "file": numbered(order.text),
        "instructions": order.instructions or "(none)",
        "draft": order.draft,
        "undecided": order.problem,
    }
    mark = hashlib.sha256("\0".join(parts.values()).encode("utf-8", "replace")).hexdigest()[:12]
    sections = (tagged(f"{name}-{mark}", text) for name, text in parts.items())
    return "\n\n".join((f"Path: {as_data(order.path)}", *sections))


def _taken(order: EditOrder, answer: str) -> str:
    """The text that a plan makes, if it may be taken. Raises `EditError`."""
    plan = parse_plan(_plan_in(answer))
    if not plan:
        raise EditError("The plan is empty: the draft could not be fitted.")
    after = apply_plan(order.text, plan)
    if wrong := strayed(order.text, after, plan):
        raise EditError(f"Lines {wrong[:5]} changed although the plan does not name them.")
    if why := astray(order.text, after, order.draft):
        raise EditError(f"{why[0].upper()}{why[1:]}.")
    if flaw := first_flaw(order.path, order.text, after):
        raise EditError(f"The file parsed before and would not any more: {flaw}.")
    return after


def _plan_in(answer: str) -> str:
    """The last fenced block of an answer; without any, what stands between its first and its last bracket."""
    fenced = _FENCED.findall(answer)
    if fenced:
        return str(fenced[-1])
    start, stop = answer.find("["), answer.rfind("]")
    return answer[start : stop + 1] if 0 <= start < stop else answer


async def _answer(session: SessionContext, messages: list[Message]) -> str:
    """What the first of the job's models that can answer says. Raises `ProviderError` of the last one."""
    *others, last = session.apply or (replace(session.route, effort=""),)
    for route in others:
        with suppress(ProviderError):
            return await _asked_of(session, route, messages)
    return await _asked_of(session, last, messages)


async def _asked_of(session: SessionContext, route: Route, messages: list[Message]) -> str:
    request = ModelRequest(
        model=route.model,
        system=render("edit_agent"),
        tools=(),
        messages=tuple(messages),
        effort=route.effort,
        session=f"{session.id}-apply",
        private=session.private,
    )
    parts: list[str] = []
    usage = Usage()
    try:
        async with closed_after(route.provider.stream(request)) as stream:
            async for delta in stream:
                if isinstance(delta, TextDelta):
                    parts.append(delta.text)
                elif isinstance(delta, UsageReport):
                    usage = session.priced(route, delta.usage)
    finally:
        session.spent.add(usage, route.id)
        session.used("apply", route, usage)
    return "".join(parts)
