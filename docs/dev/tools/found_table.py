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
    "1": "any file with front matter passed as a plan; now every writer is listed",
    "2": "the program's own git calls ran programs of the repository",
    "3": "trust outlived the directory and the files it was given to",
    "4": "secrets in ignored directories could be read by commands",
    "5": "accepting the state of git included rejected code",
    "6": "a message to a running turn took precedence over a newer prompt",
    "7": "edits were applied in the wrong place, or dropped lines",
    "7a": "missing files ended a turn",
    "7b": "keys acted on things that were not on screen",
    "7c": "the screen started without a terminal, and spun when its terminal disappeared",
    "8": "commands could reach sockets of the machine",
    "9": "files that run by themselves were accepted in bulk",
    "10": "T3 let setuid bits, limits and priorities through",
    "11": "toolchain directories exposed credentials",
    "12": "signals did not restore the terminal",
    "13": "root kept rights in other users' projects and files",
    "14": "keys in logs, raw control characters in output, different names that looked alike",
    "15": "lost data and hangs: races, temporary files, patterns, pipes, depth, quota",
    "16": "approvals ignored variables; project code ran when the program started",
    "16a": "the review and the limits showed wrong information",
    "16b": "invalid Unicode ended turns and the engine",
    "16c": "a server that was down for seconds ended a turn",
    "16d": "without a screen, nothing reported changes that are accepted as a whole",
    "16e": "one damaged part of a session blocked all changes; long logs took seconds and memory",
    "17": "cases of the catalogue had no test",
    "18": "the promises were never tested in random order",
    "19": "packages were installed without hashes, licences not checked",
    "20": "T2a was never tested",
    "21": "the review hid parts of a hunk: escape sequences, invisible characters, look-alikes",
    "22": "accepting the state of git did more than its preview showed",
    "23": "files that run by themselves, or that a protected file names, were not protected",
    "24": "a rule that denies writing did not hold when a change was accepted",
    "25": "a hosted agent's own account of its commands counted as evidence",
    "26": "commands that check nothing got ticks and counts",
    "27": "*verified* relied on the agent's own shell",
    "28": "programs built from rejected text passed their tests",
    "29": "what commands left behind hid newer files of the project",
    "30": "files were called tested although no test had run over them",
    "31": "`!!` ran in the directory that the agent had changed to",
    "32": "a rule for commands on the machine applied in every directory",
    "33": "a commit ran programs of an untrusted project",
    "34": "programs of the project were found on `PATH` before trust",
    "35": "a command that ran again after a grant started where its first run had ended",
    "36": "ids in records led out of their directory",
    "37": "a client without the right to approve had files read through a model's name",
    "38": "credentials in git's files and in tools' credential files did not count as secrets",
    "39": "the program's texts installed another program of the same name",
    "40": "prompts in the process list, loose umasks, setuid bits in caches, JSON nested too deep",
    "41": "a commit that was killed left its reversal staged",
    "42": "the removal of a state directory went unnoticed",
    "43": "missing reasons for what was not written; leftovers of killed writes; misreported errors",
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
