"""Available models, their providers, and their jobs."""

from __future__ import annotations

from msgspec import Struct

from core.protocol.messages import ModelJob, Usage


class ModelChoice(Struct, frozen=True, kw_only=True):
    """`id` is `provider/name`. `source`: environment variable, keyring, file or address that makes it usable."""

    id: str
    source: str = ""
    context_window: int = 0


class ProviderStatus(Struct, frozen=True, kw_only=True):
    """`key`: where a key was found ("" = none); never the key itself. `problem`: why its models can't be listed."""

    id: str
    label: str
    key: str = ""
    base_url: str = ""
    local: bool = False
    problem: str = ""


class ModelUsage(Struct, frozen=True, kw_only=True):
    """The usage of one model for a job."""

    model: str
    usage: Usage


class RouteRow(Struct, frozen=True, kw_only=True):
    """One job. `mode`: it is the conversation's in that mode alone. `model` "" = nothing does it; `own` False: it has
    no model of its own, and the conversation's does it. `effort` "" = its default; `wanted` was asked for, and the
    model does not have it; `efforts` are those that it has. `context_window` in tokens, 0 = not known; `priced`:
    whether its price is known, `estimated` by that of a similar model. `price_step`: the tokens of a prompt above which
    they cost more, 0 = none. `tier`: the service tier, "" = standard; `tiers`: those that it has, and `tier_factors`
    what they cost in standard prices. `retires_at`: the day (ISO) from which the model is gone, "" = unknown. `taken`:
    usage in this session, by the model that took it."""

    job: ModelJob
    mode: str = ""
    model: str = ""
    own: bool = True
    effort: str = ""
    wanted: str = ""
    efforts: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    context_window: int = 0
    priced: bool = False
    estimated: bool = False
    price_step: int = 0
    tier: str = ""
    tiers: tuple[str, ...] = ()
    tier_factors: tuple[float, ...] = ()
    retires_at: str = ""
    taken: tuple[ModelUsage, ...] = ()
