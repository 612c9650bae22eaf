"""What a hook is told of a call's arguments, and gives back: what the tool took, in whatever words it was given."""

from __future__ import annotations

import json

import pytest

from core.agent.answer.documents import OpenDocument
from core.agent.gate.call_hooks import _list_arguments
from core.agent.gate.gated_call import GatedCall
from core.protocol.messages import ToolCall
from core.tools.toolset import Toolset


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("run_terminal_cmd", {"command": "ls"}, {"command": "ls"}),
        ("run_terminal_cmd", {"command": "ls", "timeout": 0}, {"command": "ls", "timeout": 0}),
        (
            "Bash",
            {"command": ["bash", "-lc", "ls"], "dangerouslyDisableSandbox": True, "block_until_ms": 0},
            {"command": "ls", "is_background": True, "required_permissions": ("all",)},
        ),
    ],
)
def test_a_hook_is_told_what_the_tool_took_and_nothing_that_was_left_out(tool, given, told):
    request = ToolCall(id="c", name=tool, arguments=json.dumps(given))
    call = GatedCall(request, OpenDocument(id="d", sequence=1, kind="terminal_command", started_at=0), tool)
    call.tool = Toolset().parse(tool, request.arguments)
    assert _list_arguments(call) == told
