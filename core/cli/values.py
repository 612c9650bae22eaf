"""The values of a command line's options: read as people write them, or refused with what is wrong."""

from __future__ import annotations

import argparse
import math


def count(text: str) -> int:
    """A whole number of at least one; `10_000` and `10,000` are read as people write them."""
    try:
        value = int(text.replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def dollars(text: str) -> float:
    try:
        value = float(text.removeprefix("$"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in US dollars, such as 0.50") from None
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not an amount above zero")
    return value


def model(text: str) -> str:
    """`provider/name`; which providers there are only the configuration knows, so the engine says that."""
    provider, _, name = text.partition("/")
    if not provider.strip() or not name.strip():
        raise argparse.ArgumentTypeError(
            f"{text!r} does not name a model; expected PROVIDER/NAME, such as openai/gpt-5 or ollama/qwen3"
        )
    return text


def session_id(text: str) -> str:
    if not text or not all(letter.isalnum() or letter in "-_" for letter in text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a session id; `agent-tui sessions` lists them")
    return text
