"""The lease of one tool call, which ends its capabilities, and the type of functions that open them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from core.errors import ToolFailed
from core.protocol.review import Origin


class CallLease(Struct):
    """The lifetime of one call: its capabilities refuse to act once it has ended."""

    is_over: bool = False

    def end(self) -> None:
        self.is_over = True

    def check(self) -> None:
        if self.is_over:
            raise ToolFailed("This call is over; nothing was done.")


OpenCapability = Callable[[Origin, CallLease], object]
"""Opens the capability of one call, which refuses to act after the end of the lease."""
