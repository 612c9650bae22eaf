"""The exact subject of an approval: the bytes, where they run, with what, and which hosts they reach (SAFETY D35).

The question is shown from this record, and whoever starts the command builds the record anew from what is about to run
and compares: what the user saw is what runs.
"""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct
from msgspec.structs import replace


class Approval(Struct, frozen=True, kw_only=True):
    """`environment`: names of the variables that commands have set or removed in this session; `values`: the digest of
    the value of each, "" = removed. `network`: hosts that can be reached. `permissions`: what the command is granted
    beside running. Paths are relative to the workspace."""

    subject: str
    directory: str = "."
    environment: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    tier: str = ""
    mode: str = ""
    network: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()

    def compute_digest(self) -> str:
        """Return the SHA-256 of the record, in hex. A lone surrogate in the text counts as itself."""
        record = msgspec.structs.asdict(self) | {"subject": self.subject.encode("utf-8", "surrogatepass").hex()}
        for name in ("values", "permissions"):  # answers that were saved without them still hold
            if not record[name]:
                del record[name]
        return hashlib.sha256(msgspec.json.encode(record)).hexdigest()

    def has_same_ground(self, other: Approval) -> bool:
        """Return True if the other record differs in the hosts that can be reached at most."""
        return replace(self, network=()) == replace(other, network=())


def hash_value(value: str | None) -> str:
    """Return the SHA-256 of a variable's value, in hex; "" for None: it was removed."""
    return "" if value is None else hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
