"""Write the table of prices that the program reads: `python docs/dev/tools/price_table.py`.

It contains the providers of genai-prices that the program can ask for: OpenAI and Anthropic by name, others as the
makers of a model, and those that they fall back to. Prices of what no call of this program uses are left out.
"""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from genai_prices import types
from genai_prices.data import providers

FILE = Path(__file__).resolve().parents[3] / "core" / "providers" / "catalog" / "prices.json"
BY_NAME = ("openai", "anthropic")
RATES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
}
TEXTS = {"equals": "=", "starts_with": "^", "ends_with": "$", "contains": "*"}


def convert_clause(clause: Any) -> list[Any]:
    """Return a condition as `[kind, text, parts]`; texts are compared in lower case."""
    for attribute, kind in (("or_", "|"), ("and_", "&")):
        if hasattr(clause, attribute):
            return [kind, "", [convert_clause(part) for part in getattr(clause, attribute)]]
    if hasattr(clause, "regex"):
        return ["/", clause.regex]
    (attribute,) = TEXTS.keys() & vars(clause).keys()
    return [TEXTS[attribute], getattr(clause, attribute).lower()]


def convert_rate(price: Any) -> list[Any]:
    if isinstance(price, types.TieredPrices):
        return [str(price.base), [[tier.start, str(tier.price)] for tier in price.tiers]]
    return [str(price)]


def convert_prices(prices: types.ModelPrice, constraint: Any = None) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if isinstance(constraint, types.StartDateConstraint):
        row["since"] = constraint.start_date.isoformat()
    elif constraint is not None:
        row["hours"] = [format_time(constraint.start_time), format_time(constraint.end_time)]
    row |= {name: convert_rate(rate) for key, name in RATES.items() if (rate := getattr(prices, key)) is not None}
    if prices.requests_kcount is not None:
        row["request"] = str(Decimal(prices.requests_kcount) / 1000)
    return row


def format_time(moment: datetime.time) -> str:
    day = datetime.datetime.combine(datetime.date(2000, 1, 2), moment)
    utc = day.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else day.astimezone(datetime.UTC)
    return utc.time().isoformat("microseconds")


def convert_model(model: types.ModelInfo) -> dict[str, Any]:
    variants = model.prices if isinstance(model.prices, list) else [types.ConditionalPrice(prices=model.prices)]
    row = {
        "names": convert_clause(model.match),
        "prices": [convert_prices(each.prices, each.constraint) for each in variants],
    }
    return row | ({"window": model.context_window} if model.context_window else {})


def render_table() -> str:
    """Return the table: one line per model."""
    asked = [provider for provider in providers if provider.id in BY_NAME or provider.model_match is not None]
    fallbacks = {name for provider in asked for name in provider.fallback_model_providers or ()}
    blocks = []
    for provider in providers:
        if provider not in asked and provider.id not in fallbacks:
            continue
        head: dict[str, Any] = {"id": provider.id}
        if provider.model_match is not None:
            head["names"] = convert_clause(provider.model_match)
        if provider in asked and provider.fallback_model_providers:
            head["fallback"] = provider.fallback_model_providers
        models = ",\n".join(json.dumps(convert_model(model)) for model in provider.models)
        blocks.append(f'{json.dumps(head)[:-1]}, "models": [\n{models}\n]}}')
    return "[\n" + ",\n".join(blocks) + "\n]\n"


if __name__ == "__main__":
    FILE.write_text(render_table(), encoding="utf-8")
