"""What can be configured of models and of the APIs that they are reached by."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

DialectName = Literal["native", "tags", "command"]
EditFormat = Literal["search_replace", "str_replace", "multi_edit", "patch", "lazy", "blocks"]


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model API. `kind` says which protocol it speaks; "" = by its name, else OpenAI's.

    `{model}` in `base_url` stands for the model's name. `api_key_env` names the environment variable that holds the
    key, `key_command` is run to print it; a key itself never stands in a configuration file. `key_header`: the header
    that the key goes in, "" = the protocol's own. `query`: what goes into the query of each request.
    """

    base_url: str = ""
    api_key_env: str = ""
    key_command: str = ""
    key_header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{0,60}$")] = ""
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    kind: Literal["", "openai", "anthropic"] = ""


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, by its id `provider/name`. `dialect`: how it says what it wants done; function calls are native.

    `edits`: the format in which it is offered to edit files; "" = the one that models of its name are best at.
    """

    dialect: DialectName = "native"
    edits: EditFormat | Literal[""] = ""
