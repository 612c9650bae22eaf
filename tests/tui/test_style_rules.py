from __future__ import annotations

from textual.css.stylesheet import Stylesheet

from tests.support.style_rules import ANSWERS

apply = Stylesheet.apply  # Textual's own, before any test replaces it


def list_rules(app):
    """Return the rules of every widget and of each of its components."""
    nodes = [node for screen in app.screen_stack for node in screen.walk_children(with_self=True)]
    components = [node._component_styles for node in nodes]
    rules = [{name: dict(styles.base._rules) for name, styles in styles.items()} for styles in components]
    return [(node, dict(node.styles.base._rules), of) for node, of in zip(nodes, rules, strict=True)]


async def test_rules_that_were_found_for_another_app_are_those_that_textual_finds(stage, monkeypatch):
    for _ in range(2):
        async with stage() as on:
            for key in ("ctrl+t", "f1", "down", "escape", "f2", "ctrl+r"):
                await on.pilot.press(key)
                remembered = list_rules(on.app)
                with monkeypatch.context() as patch:
                    patch.setattr(Stylesheet, "apply", apply)
                    for screen in on.app.screen_stack:
                        on.app.stylesheet.update(screen)
                assert list_rules(on.app) == remembered
                assert len(remembered) > 10
    assert len(ANSWERS) > 100
