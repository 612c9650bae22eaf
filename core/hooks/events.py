"""The events that hooks hear of: one table for the names of both dialects, and what an answer can do at each.

Cursor's spelling is the name here; where Claude Code alone has an event, or it is ours, it is spelled alike.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

Dialect = Literal["own", "cursor", "claude"]


class HookEvent(StrEnum):
    """A moment at which hooks run."""

    SESSION_START = "sessionStart"
    SESSION_END = "sessionEnd"
    BEFORE_PROMPT = "beforeSubmitPrompt"
    PRE_TOOL = "preToolUse"
    PERMISSION_REQUEST = "permissionRequest"
    POST_TOOL = "postToolUse"
    POST_FAILURE = "postToolUseFailure"
    BEFORE_SHELL = "beforeShellExecution"
    AFTER_SHELL = "afterShellExecution"
    BEFORE_MCP = "beforeMCPExecution"
    AFTER_MCP = "afterMCPExecution"
    BEFORE_READ = "beforeReadFile"
    AFTER_EDIT = "afterFileEdit"
    SUBAGENT_START = "subagentStart"
    SUBAGENT_STOP = "subagentStop"
    AFTER_RESPONSE = "afterAgentResponse"
    PRE_COMPACT = "preCompact"
    POST_COMPACT = "postCompact"
    STOP = "stop"
    NOTIFICATION = "notification"
    BEFORE_PROMOTE = "beforePromote"
    AFTER_PROMOTE = "afterPromote"


class EventRules(Struct, frozen=True, kw_only=True):
    """The rules of an event. `claude`: its name there, "" = it has none. `blocks`: an answer can refuse what is about
    to happen; `continues`: a refusal means that the agent goes on working. `takes_text`: what Claude's hooks print that
    is no JSON is told to the model. `seconds`: time that a hook has by default."""

    claude: str = ""
    blocks: bool = False
    continues: bool = False
    takes_text: bool = False
    seconds: float = 60.0


RULES: Final = {
    HookEvent.SESSION_START: EventRules(claude="SessionStart", takes_text=True),
    HookEvent.SESSION_END: EventRules(claude="SessionEnd", seconds=5.0),
    HookEvent.BEFORE_PROMPT: EventRules(claude="UserPromptSubmit", blocks=True, takes_text=True, seconds=30.0),
    HookEvent.PRE_TOOL: EventRules(claude="PreToolUse", blocks=True),
    HookEvent.PERMISSION_REQUEST: EventRules(claude="PermissionRequest", blocks=True),
    HookEvent.POST_TOOL: EventRules(claude="PostToolUse"),
    HookEvent.POST_FAILURE: EventRules(claude="PostToolUseFailure"),
    HookEvent.BEFORE_SHELL: EventRules(blocks=True),
    HookEvent.AFTER_SHELL: EventRules(),
    HookEvent.BEFORE_MCP: EventRules(blocks=True),
    HookEvent.AFTER_MCP: EventRules(),
    HookEvent.BEFORE_READ: EventRules(blocks=True),
    HookEvent.AFTER_EDIT: EventRules(),
    HookEvent.SUBAGENT_START: EventRules(claude="SubagentStart", blocks=True, takes_text=True),
    HookEvent.SUBAGENT_STOP: EventRules(claude="SubagentStop", continues=True),
    HookEvent.AFTER_RESPONSE: EventRules(),
    HookEvent.PRE_COMPACT: EventRules(claude="PreCompact", blocks=True),
    HookEvent.POST_COMPACT: EventRules(claude="PostCompact"),
    HookEvent.STOP: EventRules(claude="Stop", continues=True),
    HookEvent.NOTIFICATION: EventRules(claude="Notification"),
    HookEvent.BEFORE_PROMOTE: EventRules(blocks=True, seconds=300.0),
    HookEvent.AFTER_PROMOTE: EventRules(seconds=300.0),
}
# Events of the peers that are never raised here, so that a hook on one is told of and not called unknown.
NOT_RAISED: Final = frozenset(
    {
        "afterAgentThought",
        "beforeTabFileRead",
        "afterTabFileEdit",
        "workspaceOpen",
        "PermissionDenied",
        "PostToolBatch",
        "InstructionsLoaded",
        "FileChanged",
        "ConfigChange",
        "CwdChanged",
        "Elicitation",
        "ElicitationResult",
        "Setup",
        "StopFailure",
        "TaskCreated",
        "TaskCompleted",
        "TeammateIdle",
        "UserPromptExpansion",
        "WorktreeCreate",
        "WorktreeRemove",
    }
)
EVENTS_BY_NAME: Final = {
    **{event.value: event for event in HookEvent},
    **{rules.claude: event for event, rules in RULES.items() if rules.claude},
}


def get_native_name(event: HookEvent, dialect: Dialect) -> str:
    """Return what hooks of a dialect know an event by."""
    return (RULES[event].claude or event.value) if dialect == "claude" else event.value
