"""The head of every request of a session: system prompt and tools, fixed when the session starts.

Providers cache by prefix, so it never changes while the session lives: a rule file edited meanwhile is told by a
message (`told_rules`). It is saved beside the log, so a resumed session sends the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.agent.context.project_facts import render_layout
from core.agent.context.prompt_tags import escape_tags, render_rule_blocks
from core.agent.context.token_meter import measure_prefix
from core.config.rules.loading import load_rule_files
from core.config.rules.rule import choose_rules, list_loaded
from core.dialects.dialect import Dialect
from core.dialects.native import NativeDialect
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_directories import make_private_directory
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.prompts import load_tool_text, render
from core.protocol.events import LoadedRule
from core.providers.base import ToolSpec
from core.records import decode_json
from core.secrets import mask_secrets
from core.tools.toolset import Toolset
from core.workspace import Workspace

PREFIX_FILE = "prefix.json"


class Prefix(Struct, frozen=True, kw_only=True):
    system: str
    tools: tuple[ToolSpec, ...]


class PromptSetup(Struct, frozen=True, kw_only=True):
    """The parts of a first request. `rules`: blocks of those that bind from the start, `loaded` what is told of them.

    `size`: bytes of the prefix; `is_changed`: the session began with another one.
    """

    prefix: Prefix
    rules: tuple[str, ...]
    loaded: tuple[LoadedRule, ...]
    layout: str
    size: int
    dialect: Dialect = NativeDialect()
    is_changed: bool = False


def render_system_prompt(rules: Sequence[str], *, is_short: bool = False) -> str:
    """Render the system prompt with the blocks of rules. It is saved and sent, so a key of ours is masked."""
    return mask_secrets(render("system_short" if is_short else "system", rules=rules))


def build_setup(
    workspace: Workspace,
    directory: Path,
    tools: Toolset,
    *,
    hears: TrustCheck | None = trust_everything,
    appended_prompt: str = "",
) -> PromptSetup:
    """Read rules and layout; build the prefix or load the one that the session began with. Runs in a thread.

    `hears` None: the project is not trusted, and no rule of it is read; those whose bytes are not heard are left out.
    `appended_prompt`: what the user wants behind the rules.
    """
    files = load_rule_files(workspace, hears)
    choices = choose_rules(files)
    rules = render_rule_blocks(choices)
    if appended_prompt.strip():
        rules = (*rules, render("appended", text=escape_tags(appended_prompt.strip())))
    fresh = Prefix(system=render_system_prompt(rules), tools=tools.build_specs(load_tool_text))
    prefix, is_changed = load_or_save_prefix(directory, PREFIX_FILE, fresh)
    return PromptSetup(
        prefix=prefix,
        rules=rules,
        loaded=list_loaded(files, choices, only_told=True),
        layout=render_layout(workspace),
        size=measure_prefix(prefix.system, prefix.tools),
        is_changed=is_changed,
    )


def load_or_save_prefix(directory: Path, name: str, fresh: Prefix) -> tuple[Prefix, bool]:
    """Return the prefix that the session began with, else `fresh`, saved; and whether its tools had to change."""
    saved_prefix = _load_prefix(directory / name)
    if saved_prefix is not None and saved_prefix.tools == fresh.tools:
        return saved_prefix, False
    save_state_file(directory, name, msgspec.json.encode(fresh))
    return fresh, saved_prefix is not None


def delete_prefixes(directory: Path) -> None:
    """Delete the saved prefixes of a session that has said nothing to a model yet."""
    for path in directory.glob("prefix*.json"):
        path.unlink(missing_ok=True)


def _load_prefix(path: Path) -> Prefix | None:
    try:
        return decode_json(path.read_bytes(), Prefix)
    except (OSError, msgspec.MsgspecError):
        return None


def save_state_file(directory: Path, name: str, data: bytes) -> None:
    """Write a file whole or not at all; failing to only loses the provider's cache when the session is resumed."""
    with suppress(OSError):
        make_private_directory(directory)
        replace_file(directory / name, data, durable=False)
