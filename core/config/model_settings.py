"""Settings of models and of the APIs that they are reached by."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from core.edit_formats import EditFormat
from core.protocol.messages import Effort, Usage
from core.protocol.tools import ToolSettings

DialectName = Literal["native", "tags", "command"]
ModelId = Annotated[str, Meta(pattern=r"^([^/\s]+/\S.*)?$")]


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model API. `kind` is its protocol; "" = by its name, else OpenAI's.

    `{model}` in `base_url` stands for the model's name. `api_key_env` names the environment variable that
    holds the key, `key_command` prints it; a key itself never stands in a configuration file. `key_header`:
    the header of the key, "" = the protocol's own. `query`: parameters of each request. `wire`: which of
    OpenAI's two protocols, "" = responses at OpenAI's own host, chat completions everywhere else.
    """

    base_url: str = ""
    api_key_env: str = ""
    key_command: str = ""
    key_header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{0,60}$")] = ""
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    kind: Literal["", "openai", "anthropic"] = ""
    wire: Literal["", "chat", "responses"] = ""


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens. `cached`: of those that the API had in its cache, None = as `input`."""

    input: Annotated[float, Meta(ge=0)]
    output: Annotated[float, Meta(ge=0)]
    cached: Annotated[float, Meta(ge=0)] | None = None

    def compute_cost(self, usage: Usage) -> float:
        """Return US dollars for one call; the prompt's tokens include the cached ones."""
        cached_price = self.input if self.cached is None else self.cached
        fresh = usage.prompt_tokens - usage.cached_tokens
        return (fresh * self.input + usage.cached_tokens * cached_price + usage.completion_tokens * self.output) / 1e6


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, by its id `provider/name`. `dialect`: the form of its tool calls; "" = native function calls, but for
    a model that is known to have none. `edits`: the format in which it is offered to edit files; "" = the one that
    models of its name are best at. `price`: None = as the program's price list has it."""

    dialect: DialectName | Literal[""] = ""
    edits: EditFormat | Literal[""] = ""
    price: Price | None = None


class RouteSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model of a job and its effort ("" = its default); `fallback`: models to ask instead, in this order."""

    model: ModelId = ""
    effort: Effort | Literal[""] = ""
    fallback: tuple[Annotated[str, Meta(pattern=r"^[^/\s]+/\S.*$")], ...] = ()


class RouteTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The jobs that a model does: the conversation, fitting edits, notes, search by meaning, todos in parallel."""

    chat: RouteSettings = RouteSettings()
    apply: RouteSettings = RouteSettings()
    small: RouteSettings = RouteSettings()
    embed: RouteSettings = RouteSettings()
    subagent: RouteSettings = RouteSettings()


class ModeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model of a mode and its effort; "" = as in the other modes. `tools`: what narrows tools in it."""

    model: ModelId = ""
    effort: Effort | Literal[""] = ""
    tools: dict[str, ToolSettings] = field(default_factory=dict)


class ModeTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: ModeSettings = ModeSettings()
    plan: ModeSettings = ModeSettings()
    ask: ModeSettings = ModeSettings()
    debug: ModeSettings = ModeSettings()
