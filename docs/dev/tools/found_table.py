"""Writes the table of holes that were found in `docs/dev/safety-tests.md`: `python docs/dev/tools/found_table.py`.

A test that was made for one of them has its number in its name (`test_n4_…`), so the table can name no test that is not
there and miss none that is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "dev" / "safety-tests.md"
BEGIN: Final = "<!-- found: python docs/dev/tools/found_table.py -->\n"
END: Final = "<!-- /found -->\n"
_OTHERS: Final = {
    "tests/unit/shell/test_log_collector.py",
    "tests/unit/sandbox/test_proxy.py",
}  # `n8` there is a case of the catalogue
_NUMBERED: Final = re.compile(r"(?:^|_)n(\d+[a-e]?)_")
FOUND: Final = {
    "1": "a plan was any file with front matter; now every writer is named",
    "2": "our own git ran programs of the repository",
    "3": "trust outlived the directory and its words",
    "4": "secrets in ignored directories could be read by commands",
    "5": "accepting the state of git brought rejected code",
    "6": "a word to a running turn outranked a newer prompt",
    "7": "edits were applied at the wrong place, or dropped lines",
    "7a": "files that are not there ended a turn",
    "7b": "keys reached what was not on screen",
    "7c": "the screen ran into a pipe, and spun when its terminal went",
    "8": "sockets of the machine could be reached",
    "9": "files that act by themselves were accepted in bulk",
    "10": "T3 let setuid bits, limits and priorities through",
    "11": "credentials lay among toolchains",
    "12": "signals left the terminal as it was",
    "13": "root kept rights in other users' projects and files",
    "14": "keys in logs, raw control characters, names drawn alike",
    "15": "losses and hangs: races, temporary files, patterns, pipes, depth, quota",
    "16": "approvals without values; code of the project at our start",
    "16a": "the review and the limits said what was not so",
    "16b": "text that is no Unicode ended turns and the engine",
    "16c": "a server that was gone for seconds ended a turn",
    "16d": "what is decided as a whole was not told without a screen",
    "16e": "one damaged piece blocked all; long logs took seconds and memory",
    "17": "cases of the catalogue had no test",
    "18": "the promises were never tried in random order",
    "19": "packages were installed without hashes, licences not checked",
    "20": "T2a was never tried",
    "21": "the review left out what a hunk holds: sequences, characters that can't be seen, look-alikes",
    "22": "accepting the state of git did more than its preview said",
    "23": "files that act by themselves, or that a red file names, were not red",
    "24": "a rule that denies writing did not hold when the change was accepted",
    "25": "what a hosted agent says of its commands counted as evidence",
    "26": "ticks and counts for commands that check nothing",
    "27": "verified was what the agent's own shell had said",
    "28": "programs built from rejected text passed their tests",
    "29": "what commands had left hid what is newer in the project",
    "30": "files were called tested over which no test had run",
    "31": "`!!` ran in the directory that the agent had changed to",
    "32": "a rule for commands on the machine held in every directory",
    "33": "a commit ran programs of a project that nobody had trusted",
    "34": "programs of the project were found on PATH before trust",
    "35": "a command that ran again after a grant began where its first run had ended",
    "36": "ids in records led out of their directory",
    "37": "a client that may not approve had files read by the name of a model",
    "38": "credentials in git's files, and tools' files of credentials, were not taken for secrets",
    "39": "our texts installed another program of the same name",
    "40": "prompts in the list of processes, loose umasks, setuid bits in caches, JSON nested too deep",
    "41": "a commit that was killed left its reversal staged",
    "42": "a state directory that was removed went unnoticed",
    "43": "no reason given for what was not written; leftovers of killed writes; errors taken for others",
}


def tests_by_number() -> dict[str, dict[str, int]]:
    """How many tests each file has for each number."""
    found: dict[str, dict[str, int]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(ROOT).as_posix()
        names = re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
        for number in (each for name in names for each in _NUMBERED.findall(name) if each in FOUND):
            if place not in _OTHERS:
                files = found.setdefault(number, {})
                files[place] = files.get(place, 0) + 1
    return found


def table() -> str:
    """The rows, in the order of the numbers."""
    found = tests_by_number()
    rows = ["| number | what was found | tests (`test_n<number>_…`), and how many |", "|---|---|---|"]
    for number, what in FOUND.items():
        places = ", ".join(f"`{place}` ({count})" for place, count in found.get(number, {}).items())
        rows.append(f"| {number} | {what} | {places} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    """The page with the table as it has to be."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    sys.exit(0 if PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8") else 1)
