"""The modes on the screen: a record for each mode of `core.modes`, in a module of the mode's name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from core.modes import Mode
from tui.modes.base import ScreenMode

SCREEN_MODES: Final[Mapping[str, ScreenMode]] = {
    mode.value: import_module(f"{__name__}.{mode.value}").SCREEN_MODE for mode in Mode
}
