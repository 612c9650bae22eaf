"""Commands that are left to the user (`human`): the model proposes one, the user types the one that runs.

The call goes on with what was typed, as if the model had said it; without an answer it is refused as before.
"""

from __future__ import annotations

from msgspec.structs import replace

from core.agent.turn.turn_context import TurnContext
from core.ids import new_id
from core.protocol.documents import Option, Question
from core.protocol.events import QuestionAsked
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

_PROPOSED = "as_proposed"
_MAX_SHOWN = 2_000  # characters of the proposal


async def ask_for_command(session: TurnContext, call: str, tool: RunTerminalCmd) -> RunTerminalCmd | None:
    """Ask the user for the command to run and return the call with it. None: no answer, or nobody to ask."""
    if not session.is_interactive:
        return None
    proposed = tool.command if len(tool.command) <= _MAX_SHOWN else f"{tool.command[:_MAX_SHOWN]} …"
    why = f" ({tool.explanation})" if tool.explanation else ""
    question = Question(
        id="command",
        text=f"The agent would run this{why}:\n\n{proposed}\n\nType the command to run; its output goes to the agent.",
        options=(Option(id=_PROPOSED, label="Run it as proposed"),),
    )
    answered = await session.ask(QuestionAsked(id=new_id("ask"), call=call, questions=(question,)))
    if not answered.answers:
        return None
    answer = answered.answers[0]
    if answer.text.strip():
        return replace(tool, command=answer.text.strip())
    return tool if _PROPOSED in answer.options else None
