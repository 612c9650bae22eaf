"""The way of a command's output to its listener and into its result: as plain text, without the values of secrets."""

from __future__ import annotations

from collections.abc import Callable

from core.sandbox.plain_text import LiveTextStream
from core.shell.long_output import CommandOutput
from core.shell.shell_state import replace_undecodable
from core.workspace.secret_files import SecretMasker


class MaskedOutput:
    """Takes output as it was written, with invalid UTF-8 as in PEP 383. `on_output` gets it in pieces
    (`core.state.live_text`); with `is_raw` as it was written, while the result has plain text all the same. The masked
    `values` may be set later, before the command prints."""

    def __init__(
        self,
        output: CommandOutput,
        on_output: Callable[[str], None],
        values: tuple[str, ...] = (),
        *,
        is_raw: bool = False,
    ) -> None:
        self._output, self._on_output, self._is_raw = output, on_output, is_raw
        self._plain = LiveTextStream()
        self._masker = SecretMasker(self._take, values)

    @property
    def has_masked(self) -> bool:
        return self._masker.masked_count > 0

    def mask(self, values: tuple[str, ...]) -> None:
        """Mask these values from now on."""
        self._masker.values = values

    def feed(self, text: str) -> None:
        """Take output of the command."""
        piece = text if self._is_raw else self._plain.feed(replace_undecodable(text))
        if piece:
            self._masker.feed(piece)

    def feed_errors(self, text: str, on_errors: Callable[[str], None]) -> None:
        """Take what a command whose output is raw writes to its standard error."""
        self._output.add(self._plain.feed(replace_undecodable(text)))
        on_errors(text)

    def finish(self) -> None:
        """Flush the output: the command prints no more."""
        if not self._is_raw:
            self._masker.feed(self._plain.finish())
        self._masker.finish()
        self._output.add(self._plain.finish())

    def _take(self, text: str) -> None:
        self._output.add(self._plain.feed(replace_undecodable(text)) if self._is_raw else text)
        self._on_output(text)
