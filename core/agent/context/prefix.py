"""The head of every request of a session: system prompt and tools, fixed when the session starts.

Providers cache by prefix, so it never changes while the session lives: a message reports a rule file that is edited
later (`rule_injection`). It is saved next to the log, so a resumed session sends the same bytes.

Its variant is chosen for every model of a session and saved as well: short prompts with few tools for a small window,
tags in the text for a model without function calls. It stays what it was, as the cache does, unless it can't work any
more: the window does not hold it, or the server was started again with a template that drops the tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from core.agent.base.prompt_tags import escape_tags, render_rule_blocks
from core.agent.context.project_facts import render_layout
from core.agent.context.token_meter import measure_prefix
from core.config.rules.loading import load_rule_files
from core.config.rules.rule import choose_rules, list_loaded
from core.dialects.dialect import Dialect
from core.dialects.native import NativeDialect
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_files import make_private_directory
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.prompts import load_tool_text, render
from core.protocol.events import LoadedRule
from core.providers.base import ToolSpec
from core.records import decode_json
from core.secrets import mask_secrets
from core.tools.toolset import Toolset
from core.workspace import Workspace

PREFIX_FILE = "prefix.json"
SHORT_BELOW = 16_000  # tokens of a window
VARIANTS_FILE = "prefix-variants.json"


class Prefix(Struct, frozen=True, kw_only=True):
    system: str
    tools: tuple[ToolSpec, ...]


class PromptSetup(Struct, frozen=True, kw_only=True):
    """The parts of a first request. `rules`: blocks of the rules that hold from the start; `loaded`: their list for the
    user; `size`: bytes of the prefix; `is_changed`: the session began with another prefix.
    """

    prefix: Prefix
    rules: tuple[str, ...]
    loaded: tuple[LoadedRule, ...]
    layout: str
    size: int
    dialect: Dialect = NativeDialect()
    is_changed: bool = False


def render_system_prompt(rules: Sequence[str], *, is_short: bool = False) -> str:
    """Render the system prompt with the blocks of rules. Secrets of the program are masked, as it is saved and sent."""
    return mask_secrets(render("system_short" if is_short else "system", rules=rules))


def build_setup(
    workspace: Workspace,
    directory: Path,
    tools: Toolset,
    *,
    is_trusted_content: TrustCheck | None = trust_everything,
    appended_prompt: str = "",
) -> PromptSetup:
    """Read rules and layout; build the prefix or load the one that the session began with. Runs in a thread.

    `is_trusted_content`: checks the bytes of the project's rule files, which are left out if it fails; None = no rule
    of the project is read. `appended_prompt`: text of the user for the end of the system prompt.
    """
    files = load_rule_files(workspace, is_trusted_content)
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
    """Return the saved prefix of the session if its tools are the present ones, otherwise save and return `fresh`.

    The second value is True if a saved prefix was replaced."""
    saved_prefix = _load_prefix(directory / name)
    if saved_prefix is not None and saved_prefix.tools == fresh.tools:
        return saved_prefix, False
    save_state_file(directory, name, msgspec.json.encode(fresh))
    return fresh, saved_prefix is not None


def delete_prefixes(directory: Path) -> None:
    """Delete the saved prefixes of a session that has sent no request yet."""
    for path in directory.glob("prefix*.json"):
        path.unlink(missing_ok=True)


def _load_prefix(path: Path) -> Prefix | None:
    try:
        return decode_json(path.read_bytes(), Prefix)
    except (OSError, msgspec.MsgspecError):
        return None


def save_state_file(directory: Path, name: str, data: bytes) -> None:
    """Write a file atomically. Errors are ignored: they only cost the provider's cache when the session is resumed."""
    with suppress(OSError):
        make_private_directory(directory)
        replace_file(directory / name, data, durable=False)


class _VariantsFile(Struct, kw_only=True):
    """The variants on disk. `short`: by model id, True = short prompts; `toolless`: ids of models without function
    calls."""

    short: dict[str, bool] = field(default_factory=dict)
    toolless: list[str] = field(default_factory=list)


def copy_variants(source: Path, target: Path) -> None:
    """Copy the variants of the session in directory `source` to the new session in `target`."""
    with suppress(OSError):
        save_state_file(target, VARIANTS_FILE, (source / VARIANTS_FILE).read_bytes())


class PromptVariants:
    """The prompt variants of one session, saved in its directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._chosen = _VariantsFile()
        with suppress(OSError, msgspec.MsgspecError):
            self._chosen = decode_json((directory / VARIANTS_FILE).read_bytes(), _VariantsFile)

    def choose_variant(self, model: str, *, window: int, tools: bool) -> bool:
        """Choose the variant for a model. `window`: in tokens, 0 = not known. Returns False if it was chosen before,
        and the model still takes function calls, or took none then."""
        is_toolless = not tools and model not in self._chosen.toolless
        if model in self._chosen.short and not is_toolless:
            return False
        self._chosen.short.setdefault(model, 0 < window < SHORT_BELOW)
        self._chosen.toolless += [model] if is_toolless else []
        self._save()
        return True

    def shorten(self, model: str) -> bool:
        """Choose the short prompts for a model whose window can't hold the others. Returns False if it has them."""
        if self.is_short(model):
            return False
        self._chosen.short[model] = True
        self._save()
        return True

    def is_short(self, model: str) -> bool:
        """True if a model has the short prompts."""
        return self._chosen.short.get(model, False)

    def is_toolless(self, model: str) -> bool:
        """True if the model takes no function calls."""
        return model in self._chosen.toolless

    def mark_toolless(self, model: str) -> None:
        """Record that the model has just refused function calls."""
        if model not in self._chosen.toolless:
            self._chosen.toolless.append(model)
            self._save()

    def _save(self) -> None:
        save_state_file(self._directory, VARIANTS_FILE, msgspec.json.encode(self._chosen))
