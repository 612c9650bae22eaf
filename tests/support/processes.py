"""The processes of this machine, found by what their command lines say."""

from __future__ import annotations

import os

import psutil


def list_processes(*texts: str) -> list[int]:
    """Return the processes that have not ended and whose command line has all of these texts; this one is none."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if process.pid != os.getpid() and process.info["status"] != psutil.STATUS_ZOMBIE
        if all(text in " ".join(process.info["cmdline"] or ()) for text in texts)
    ]
