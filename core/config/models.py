"""What can be configured of models and of the APIs that they are reached by."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

DialectName = Literal["native", "tags", "command"]
EditFormat = Literal["search_replace", "str_replace", "multi_edit", "patch", "lazy", "blocks"]


class ProviderSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model API. `kind` says which protocol it speaks; "" = by its name, else OpenAI's.

    `api_key_env` names the environment variable that holds the key; a key itself never stands in a configuration file.
    """

    base_url: str = ""
    api_key_env: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    kind: Literal["", "openai", "anthropic"] = ""


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, by its id `provider/name`. `dialect`: how it says what it wants done; function calls are native.

    `edits`: the format in which it is offered to edit files; "" = the one that models of its name are best at.
    """

    dialect: DialectName = "native"
    edits: EditFormat | Literal[""] = ""
