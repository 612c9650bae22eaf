"""`python -m tests.fuzz`: random sequences against the promises, bounded in count and time; what fails is minimised."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from core.sandbox.box import Tier
from tests.fuzz.actions import Sequence, read_sequence
from tests.fuzz.generate import Generator
from tests.fuzz.minimise import minimised
from tests.fuzz.play import Player
from tests.fuzz.project import make_template

ROOM = 500_000_000  # bytes
CRASHES = 20  # one sequence in so many has processes that are killed


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz ARGS=…", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="of the first sequence (default: random, and printed)")
    parser.add_argument("--count", type=int, default=200, help="how many sequences")
    parser.add_argument("--seconds", type=float, default=600, help="begin no sequence after so many seconds")
    parser.add_argument("--faults", type=int, default=3, help="stop after so many sequences that fail")
    parser.add_argument("--crashes", type=int, default=CRASHES, help="one in so many has a process killed; 0 = none")
    parser.add_argument("--tier", type=Tier, default=None, help="the box to use (default: the strongest there is)")
    parser.add_argument("--replay", type=Path, default=None, help="a sequence that was printed, as a file")
    parser.add_argument("--raw", action="store_true", help="print what fails as it is, not minimised")
    return parser.parse_args(arguments)


def sequence_of(seed: int, crashes: int) -> Sequence:
    return Generator(seed).sequence(crash=bool(crashes) and seed % crashes == 0)


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    with tempfile.TemporaryDirectory(prefix="agent-tui-fuzz-", dir=place_of_places()) as place:
        player = Player(make_template(Path(place, "template")), Path(place), options.tier)
        try:
            if options.replay is not None:
                faults = player.faults(read_sequence(options.replay.read_text(encoding="utf-8")))
                print("\n".join(faults) or "all promises held")
                return bool(faults)
            return fuzz(player, options)
        finally:
            player.close()


def place_of_places() -> str | None:
    """A file system in memory, where there is one: nothing waits for a disk there."""
    memory = "/dev/shm"
    return memory if os.access(memory, os.W_OK | os.X_OK) and shutil.disk_usage(memory).free > ROOM else None


def fuzz(player: Player, options: argparse.Namespace) -> int:
    seed = secrets.randbelow(1_000_000_000) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    over = alarm(options.seconds)
    begun = time.monotonic()
    failed, count = 0, 0
    while count < options.count and failed < options.faults and not over:
        sequence = sequence_of(seed + count, options.crashes)
        count += 1
        if count % 500 == 0:
            print(f"{count} sequences so far, {failed} failed", flush=True)
        if faults := player.faults(sequence):
            failed += 1
            report(player, sequence, faults, raw=options.raw)
    took = time.monotonic() - begun
    pace = count / max(took, 0.001)
    print("events: " + ", ".join(f"{number} {name}" for name, number in player.seen.most_common()))
    print(f"{count} sequences, {failed} failed, {took:.1f} s, {pace:.1f} a second, in {player.tier}", flush=True)
    return bool(failed)


def alarm(seconds: float) -> list[int]:
    """A list that is empty until so much time has passed."""
    over: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, _: over.append(number))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    return over


def kind_of(faults: list[str]) -> str:
    """What failed, without names and numbers: a smaller sequence has to fail in the same way."""
    return re.sub(r"\S*[\d/]\S*", "", faults[0])[:50] if faults else ""


def report(player: Player, sequence: Sequence, faults: list[str], *, raw: bool) -> None:
    print(f"FAILED seed {sequence.seed}: " + "\n  ".join(faults), flush=True)
    if not raw:
        kind = kind_of(faults)
        sequence = minimised(sequence, lambda candidate: kind_of(player.faults(candidate)) == kind)
        print("minimised: " + "\n  ".join(player.faults(sequence)))
    print(sequence.as_json(), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
