"""The offers of tools that are in no list, since many conversations never need one: programs, proposed goals, an
advisor."""

from __future__ import annotations

from typing import Final

from core.agent.context.offers import Offer
from core.agent.context.turn_context import TurnContext
from core.modes import Access
from core.prompts import load_tool_text, render
from core.tools.builtin.terminal.run_terminal_cmd import RunCode

TAG: Final = "available_programs"
_GOAL_TOOL: Final = "propose_goal"
_ADVISOR_TOOL: Final = "consult_advisor"


def build_program_offer(context: TurnContext) -> Offer:
    """Build the offer of programs, which is empty where none can run, and for models that hardly write them."""

    async def describe() -> str:
        await context.terminal.find_box()
        if not _can_run(context) or context.dialect != "native":
            return ""
        if context.memory.variants.is_short(context.routes.current.id):
            return ""
        return render("programs", text=context.tools.describe(RunCode.name, load_tool_text(RunCode.name)))

    return Offer(TAG, describe)


def _can_run(context: TurnContext) -> bool:
    permissions, name = context.permissions, RunCode.name
    if not context.terminal.is_contained or context.settings.commands.policy == "human":
        return False
    is_on = name not in context.tools.disabled and permissions.find_tool_settings(name).enabled
    return is_on and permissions.is_tool_granted(name) and permissions.is_granted(Access.EXEC)


def build_goal_offer(context: TurnContext) -> Offer:
    """Build the offer to propose a goal, which is empty where nobody can agree to one."""

    async def describe() -> str:
        if not context.user.is_interactive or not _can_call(context, _GOAL_TOOL):
            return ""
        return render("goals", text=context.tools.describe(_GOAL_TOOL, load_tool_text(_GOAL_TOOL)))

    return Offer("available_goals", describe)


def build_advisor_offer(context: TurnContext) -> Offer:
    """Build the offer of an advisor, which is empty where no model is set for it."""

    async def describe() -> str:
        advisors = context.routes.advisor
        if not advisors or not _can_call(context, _ADVISOR_TOOL):
            return ""
        text = context.tools.describe(_ADVISOR_TOOL, load_tool_text(_ADVISOR_TOOL))
        return render("advisors", model=advisors[0].id, text=text)

    return Offer("available_advisors", describe)


def _can_call(context: TurnContext, name: str) -> bool:
    """True if the agent, not a subagent, can call a tool that is in no list."""
    permissions = context.permissions
    is_off = name in context.tools.disabled or not permissions.find_tool_settings(name).enabled
    if is_off or permissions.subagent_limits is not None:
        return False
    return context.dialect == "native" and not context.memory.variants.is_short(context.routes.current.id)
