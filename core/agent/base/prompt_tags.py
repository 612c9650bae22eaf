"""The tags around texts for the model. Escaped foreign text can't close them or open one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.config.rules.rule import AgentRule, RuleChoice
from core.patterns import compile_lazily
from core.secrets import mask_secrets

_OWN_TAGS = (
    "user_info|now|project_layout|repo_map|open_and_recently_viewed_files|git_status|rules?|removed_rule|"
    "workspace_rules|client_rules|client_layout|earlier_conversation|user|assistant|tool|edit_history|attached_files?|file|"
    "user_query|system_reminder|available_[a-z]+|skill|web_page|web_answer|web_results|"
    "mcp_resource|mcp_prompt|side_question|pending_changes|agent_conversation"
)
_TAG = compile_lazily(rf"<(?=/?(?:{_OWN_TAGS})\b)", re.IGNORECASE)


def wrap_tag(name: str, text: str) -> str:
    """Wrap `text` in the tags of `name`."""
    return f"<{name}>\n{text}\n</{name}>"


def escape_tags(text: str) -> str:
    """Escape foreign text so that it holds none of our tags: their opening brackets become `&lt;`."""
    return _TAG.sub("&lt;", text)


def escape_attribute(value: str) -> str:
    """Escape foreign text for use between the quotes of a tag's attribute."""
    return "".join("�" if ord(char) < 32 else char for char in value).replace('"', "&quot;").replace("<", "&lt;")


def render_rule(rule: AgentRule) -> str:
    """Render the whole text of a rule."""
    return f'<rule path="{escape_attribute(rule.path)}">\n{escape_tags(mask_secrets(rule.text))}\n</rule>'


def render_rule_block(choice: RuleChoice) -> str:
    """Render a rule for the model: its text, or its description alone if it is only listed."""
    if not choice.is_listed:
        return render_rule(choice.rule)
    tag = f'<rule path="{escape_attribute(choice.rule.path)}" on_request="fetch_rules">'
    return f"{tag}\n{escape_tags(mask_secrets(choice.rule.description))}\n</rule>"


def render_rule_blocks(choices: Sequence[RuleChoice]) -> tuple[str, ...]:
    """Render the blocks of the rules that bind or are listed."""
    return tuple(render_rule_block(choice) for choice in choices if choice.binds or choice.is_listed)
