"""Modes are listed once, in `core.modes`; what else a mode needs is found by its name."""

from __future__ import annotations

from typing import get_args

import pytest

from core.cli.parsing import MODES
from core.modes import Mode
from core.protocol.events import ModeName
from core.tools.toolset import Toolset
from tests.contract.source_tree import ROOT
from tui.key_table import KEYS
from tui.modes import SCREEN_MODES


def test_wire_command_line_and_screen_take_their_list_of_modes_from_one_place():
    modes = tuple(mode.value for mode in Mode)
    assert (get_args(ModeName), MODES, tuple(SCREEN_MODES)) == (modes, modes, modes)


@pytest.mark.parametrize("mode", Mode)
def test_each_mode_has_a_text_for_the_model_and_tools_that_it_grants(mode):
    assert (ROOT / "core" / "prompts" / "modes" / f"{mode}.md.j2").is_file()
    assert {Toolset()[name].access for name in mode.rules.tools} <= mode.rules.grants


@pytest.mark.parametrize("mode", Mode)
def test_each_mode_has_a_colour_and_panes_that_the_screen_knows(mode):
    record = SCREEN_MODES[mode]
    styles = (ROOT / "tui" / "app.tcss").read_text(encoding="utf-8")
    assert record.accent == "primary" or f".-accent-{record.accent} " in styles
    assert all((record.title, record.note, record.placeholder))
    assert {f"app.{pane.name}" for pane in record.panes} <= {key.id for key in KEYS}
