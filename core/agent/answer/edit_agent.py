"""The edit agent: the model of the `apply` route plans an edit that rules can't place.

Its plan of line ranges is applied as one batch, and accepted only if every change is in the draft and the file still
parses. A draft without code leaves it to the instructions what changes. After two tries the edit is refused. The usage
of the calls counts in the turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from contextlib import suppress

from msgspec.structs import replace

from core.agent.answer.side_requests import SideRequests
from core.agent.base.prompt_tags import escape_tags, wrap_tag
from core.edits.drafts.checks import find_unmentioned_change
from core.edits.drafts.markers import has_code
from core.edits.errors import EditError
from core.edits.formats.line_plan import apply_line_plan, find_unplanned_changes, parse_line_plan
from core.errors import ProviderError
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol.messages import AssistantMessage, Message, UserMessage
from core.syntax.flaws import describe_first_flaw
from core.text.lines import number_lines
from core.tools.base import EditRequest

MAX_TRIES = 2
MAX_FILE_CHARS = 400_000  # characters of a file in a request
_FENCED_BLOCK = compile_lazily(r"```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


async def resolve_edit(side: SideRequests, order: EditRequest) -> str:
    """Return the text of the file after the edit. Raises `EditError` if no try gives an acceptable one."""
    if len(order.text) > MAX_FILE_CHARS:
        raise _build_refusal(
            order, f"the file is too long for a model to place the edit ({len(order.text):,} characters)"
        )
    messages: list[Message] = [UserMessage(content=_render_request(order))]
    problem = ""
    for _ in range(MAX_TRIES):
        try:
            answer = await _ask_routes(side, messages)
        except ProviderError as error:
            raise _build_refusal(order, f"the model that should place the edit failed ({error.message})") from error
        try:
            return await asyncio.to_thread(_apply_answer, order, answer)
        except EditError as error:
            problem = error.message
        messages += [
            AssistantMessage(content=answer or "(nothing)"),
            UserMessage(content=f"This plan was not applied: {problem}\nGive a corrected plan, or an empty list."),
        ]
    raise _build_refusal(order, f"a model could not place it either ({problem.rstrip('.')})")


def _build_refusal(order: EditRequest, reason: str) -> EditError:
    return EditError(
        f"{order.problem.rstrip('.')}; {reason}.",
        hint="Nothing was changed. Give a line of the file before and after each change, or use search_replace.",
    )


def _render_request(order: EditRequest) -> str:
    """Render the request. Its parts are not escaped, since lines are compared later; their tags contain a digest."""
    parts = {
        "file": number_lines(order.text),
        "instructions": order.instructions or "(none)",
        "draft": order.draft,
        "undecided": order.problem,
    }
    mark = hashlib.sha256("\0".join(parts.values()).encode("utf-8", "replace")).hexdigest()[:12]
    sections = (wrap_tag(f"{name}-{mark}", text) for name, text in parts.items())
    return "\n\n".join((f"Path: {escape_tags(order.path)}", *sections))


def _apply_answer(order: EditRequest, answer: str) -> str:
    """Apply the plan in an answer and return the new text. Raises `EditError` if it is not acceptable."""
    plan = parse_line_plan(_extract_plan(answer))
    if not plan:
        raise EditError("The plan is empty: the draft could not be placed.")
    after = apply_line_plan(order.text, plan)
    if wrong := find_unplanned_changes(order.text, after, plan):
        raise EditError(f"Lines {wrong[:5]} changed although the plan does not name them.")
    # Without code in the draft, the instructions alone justify the plan, and there are no lines to compare.
    if has_code(order.draft) and (reason := find_unmentioned_change(order.text, after, order.draft)):
        raise EditError(f"{reason[0].upper()}{reason[1:]}.")
    if flaw := describe_first_flaw(order.path, order.text, after):
        raise EditError(f"The file parsed before and would not parse after this: {flaw}.")
    return after


def _extract_plan(answer: str) -> str:
    """Return the last fenced block of an answer, or the text from its first to its last bracket."""
    blocks = _FENCED_BLOCK.findall(answer)
    if blocks:
        return str(blocks[-1])
    start, stop = answer.find("["), answer.rfind("]")
    return answer[start : stop + 1] if 0 <= start < stop else answer


async def _ask_routes(side: SideRequests, messages: list[Message]) -> str:
    """Return the answer of the first route that has one. Raises the `ProviderError` of the last route."""
    system = render("edit_agent")
    *others, last = side.routes.apply or (replace(side.routes.current, effort="", tier=""),)
    for route in others:
        with suppress(ProviderError):
            return await side.ask("apply", route, system, messages)
    return await side.ask("apply", last, system, messages)
