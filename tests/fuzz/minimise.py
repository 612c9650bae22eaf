"""Shrinking a sequence that fails: leave out what is not needed, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tests.fuzz import actions as act

Fails = Callable[[act.Sequence], bool]


def minimised(sequence: act.Sequence, fails: Fails, tries: int = 150) -> act.Sequence:
    """The smallest sequence found in at most `tries` tries."""
    has_progress = True
    while has_progress and tries > 0:
        has_progress = False
        for smaller in _smaller(sequence):
            tries -= 1
            if fails(smaller):
                sequence, has_progress = smaller, True
                break
            if tries <= 0:
                break
    return sequence


def _smaller(sequence: act.Sequence) -> Iterator[act.Sequence]:
    actions = sequence.actions
    size = len(actions) // 2
    while size >= 1:
        for start in range(0, len(actions), size):
            yield replace(sequence, actions=actions[:start] + actions[start + size :])
        size //= 2
    for at, action in enumerate(actions):
        for less in _less(action):
            yield replace(sequence, actions=(*actions[:at], less, *actions[at + 1 :]))


def _less(action: act.AnyAction) -> Iterator[act.AnyAction]:
    match action:
        case act.Turn(steps=steps, during=during):
            for at in range(len(during)):
                yield replace(action, during=during[:at] + during[at + 1 :])
            if action.pause >= 0 and not during:
                yield replace(action, pause=-1)
            for at in range(len(steps)):
                yield replace(action, steps=steps[:at] + steps[at + 1 :])
                for call in range(len(steps[at])):
                    rest = steps[at][:call] + steps[at][call + 1 :]
                    yield replace(action, steps=(*steps[:at], rest, *steps[at + 1 :]))
        case act.Crash(during=during):
            yield during
        case _:
            return
