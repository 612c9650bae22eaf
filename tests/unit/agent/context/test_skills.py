"""Opened skills through a compaction."""

from __future__ import annotations

from core.agent.context.skills import MAX_PINNED, MAX_PINNED_TOGETHER, render_pinned
from core.agent.turn.compaction import build_compactor
from core.config.settings import ContextSettings, Settings
from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.support.agent_case import Case, says
from tests.support.history import faults


def opened(name: str, body: str) -> ev.SkillActivated:
    text = f'<skill name="{name}" path="{name}/SKILL.md">\n{body}\n</skill>'
    return ev.SkillActivated(name=name, path=f"{name}/SKILL.md", text=text)


def grow(case: Case) -> None:
    for number in range(12):
        call = ToolCall(id=f"c{number}", name="read_file", arguments='{"target_file": "f.py"}')
        case.emit(ev.MessageAppended(message=AssistantMessage(content="Step.", tool_calls=(call,))))
        case.emit(ev.MessageAppended(message=ToolMessage(call_id=f"c{number}", content="x" * 12_000)))


async def test_an_open_skill_outlives_one_compaction_after_the_other_and_is_never_doubled(tmp_path):
    steps = [says("Notes."), says("Notes.")]
    case = Case(tmp_path, *steps, settings=Settings(context=ContextSettings(window=40_000)))
    skill = opened("pdf", "Use the script. " + "word " * 5_000)
    call = ToolCall(id="s", name="call_tool", arguments="{}")
    case.emit(ev.MessageAppended(message=UserMessage(content="<user_query>\nFill it\n</user_query>")))
    case.emit(ev.MessageAppended(message=AssistantMessage(content="", tool_calls=(call,))))
    case.emit(skill)
    case.emit(ev.MessageAppended(message=ToolMessage(call_id="s", content=skill.text)))
    for count in (1, 2):
        grow(case)
        await build_compactor(case.session).compact(1_000)
        assert len(case.of(ev.ContextCompacted)) == count
        (pinned,) = [message for message in case.messages if '<skill name="pdf"' in message.content]
        assert "Use the script." in pinned.content
        assert len(pinned.content) <= MAX_PINNED
        assert faults(case.messages) == []


def test_the_latest_skills_stay_within_the_bound_and_what_stands_or_never_stood_is_left():
    skills = [opened(f"s{number}", "word " * 3_900) for number in range(8)]
    before = [UserMessage(content=skill.text) for skill in skills[:7]]
    blocks = render_pinned(skills, before, [UserMessage(content=skills[6].text)])
    assert [block.partition(" path")[0] for block in blocks] == [
        f'<skill name="s{number}"' for number in (5, 4, 3, 2, 1)
    ]
    assert sum(map(len, blocks)) <= MAX_PINNED_TOGETHER
