"""The keys of a widget that takes text, done in the order in which they were struck."""

from __future__ import annotations

from textual.dom import DOMNode


class OwnKeys(DOMNode):
    """A widget that takes text and carries out its own bindings itself.

    Left to Textual a bound key is done when it has come back from the app: after the letters behind it, where a slow
    link brings several keys at a time.
    """

    async def _act(self, key: str) -> bool:
        """Carry out what a key is bound to here; False if nothing is, or nothing that can be done now."""
        for binding in self._bindings.key_to_bindings.get(key, ()):
            if not binding.priority and await self.app.run_action(binding.action, self):
                return True
        return False
