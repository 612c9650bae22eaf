"""Check the subjects of new commits: `area: imperative summary`, at most 72 characters, and no placeholder.

    python docs/dev/tools/commit_subjects.py [SINCE]

`SINCE` is a commit; without it, the one from which on the rule holds. Prints what is wrong and exits with 1. A clone
that lacks the commit is shallow: then the commits that it has are checked.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[3]
SINCE = "f191ff8cc967"
MAX_SUBJECT = 72  # characters
SUBJECT = re.compile(r"(?P<area>[a-z][a-z0-9_./ ,-]*): (?P<verb>[a-z]+)\b(?P<rest>.*)")
PLACEHOLDER = re.compile(r"\b(wip|tmp|todo|fixup|squash)\b", re.IGNORECASE)
# Verbs whose base form looks like an inflected one.
BASE_FORMS = re.compile(
    "access|address|bleed|breed|bring|bypass|compress|discuss|dismiss|embed|exceed|express|feed|focus|guess"
    "|heed|miss|need|pass|ping|press|proceed|process|ring|seed|shed|speed|spring|stress|string|succeed"
    "|suppress|toss"
)


def find_fault(subject: str) -> str:
    """Return what is wrong with a subject, "" = nothing."""
    if len(subject) > MAX_SUBJECT:
        return f"has {len(subject)} characters, {MAX_SUBJECT} are allowed"
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return "is not `area: imperative summary`"
    verb = match["verb"]
    if not BASE_FORMS.fullmatch(verb) and re.search(r"(ed|ing|[^s]s)$", verb):
        return f"does not begin with an imperative: `{verb}`"
    return "is a placeholder" if PLACEHOLDER.search(subject) else ""


def list_subjects(since: str) -> list[tuple[str, str]]:
    """Return name and subject of each commit after `since`, merges left out."""
    command = ["git", "-C", str(ROOT), "log", "--no-merges", "--format=%h%x09%s"]
    has_base = subprocess.run([*command[:3], "cat-file", "-e", f"{since}^{{commit}}"], capture_output=True, check=False)
    span = [f"{since}..HEAD"] if has_base.returncode == 0 else ["--max-count=1"]
    log = subprocess.run([*command, *span], capture_output=True, text=True, check=True).stdout
    return [(name, subject) for name, _, subject in (line.partition("\t") for line in log.splitlines())]


def list_faults(subjects: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name} `{subject}` {fault}" for name, subject in subjects if (fault := find_fault(subject))]


if __name__ == "__main__":
    faults = list_faults(list_subjects(sys.argv[1] if len(sys.argv) > 1 else SINCE))
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    sys.exit(1 if faults else 0)
