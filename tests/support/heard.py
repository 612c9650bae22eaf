"""What a dialect's listener hears in an answer, however it is cut, for tests."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from core.dialects.dialect import AnswerParser, AnswerText, CallFinished, CallStarted


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[start:end] for start, end in itertools.pairwise(borders)]


def listened(listener: AnswerParser, *parts: str) -> tuple[list[Any], Any]:
    """Text and calls in order, having checked that they are well formed, and the ending."""
    heard = [event for part in parts for event in listener.feed(part)] + listener.finish()
    results: list[Any] = []
    begun: list[int] = []
    ended: list[int] = []
    for event in heard:
        match event:
            case AnswerText(text):
                assert text
                if results and isinstance(results[-1], str):
                    results[-1] += text
                else:
                    results.append(text)
            case CallStarted(index, _):
                assert index == len(begun)
                begun.append(index)
                results.append(event)
            case CallFinished():
                assert event.index in begun
                ended.append(event.index)
                assert isinstance(json.loads(event.arguments), dict | list | str | int | float | bool | None)
                results.append(event)
    assert sorted(ended) == begun
    return results, listener.ending


def calls(make: Callable[[], AnswerParser], text: str) -> list[tuple[str, Any, str]]:
    """(tool, arguments, problem) of every call of an answer."""
    results, _ = listened(make(), text)
    return [(call.name, json.loads(call.arguments), call.problem) for call in results if isinstance(call, CallFinished)]


def prose(make: Callable[[], AnswerParser], text: str) -> str:
    results, _ = listened(make(), text)
    return "".join(passage for passage in results if isinstance(passage, str))
