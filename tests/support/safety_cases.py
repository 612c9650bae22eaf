"""The cases that block a release, by their ids: paths, the box, modes, secrets, durability and resources.

A test that covers a case has its id in its name (`test_s8_…`). What a box itself has to hold is covered on every tier,
for every user: by a test that takes the fixture `boxed` (all tiers) or `locked` (Landlock).
"""

from __future__ import annotations

BLOCKING: dict[str, str] = {
    "p1": "a path out of the workspace is refused before it is opened",
    "p2": "no link leads a read or a write out of the workspace",
    "p3": "a directory that is swapped for a link lets no write out",
    "p6": "modes are kept, new files follow the umask, setuid and setgid are never set",
    "p8": "every byte that was not edited is as it was: endings, byte order marks, UTF-16",
    "p11": "pipes, sockets and devices never block and are never read",
    "p14": "a file that the user changed meanwhile is a conflict and is not written",
    "p17": "an archive or a patch that leads out of the workspace writes nothing there",
    "s1": "a command changes nothing outside of the workspace",
    "s2": "a command changes nothing in the workspace; the next command and the next tool see what it did",
    "s3": "what removes everything leaves the project as it is and shows as deletions",
    "s4": "levers that a command makes act on nothing and are confirmed one by one",
    "s5": "without a grant nothing leaves for the network",
    "s6": "no socket of the machine can be connected to",
    "s7": "processes of the machine can be neither read nor touched",
    "s8": "nothing that a command started outlives it, nor the program when that is killed",
    "s10": "nothing reaches the user's terminal",
    "s11": "the walls can't be taken down from inside",
    "s12": "where the box can't be set up, the tier is told and every command asked about",
    "m1": "in Ask and Plan every tool that writes is refused",
    "m2": "in Ask and Plan a command leaves shadow and workspace as they were",
    "m3": "in Plan nothing but the plan is written",
    "m7": "no command is taken for harmless because of how it reads",
    "m8": "a command is shown in full, whatever hides in it",
    "m10": "a project's own configuration relaxes nothing",
    "m11": "what changes what the agent may do is a class of its own in the review",
    "k1": "no key of a provider reaches a child",
    "k2": "no key gets into a log, a report or an answer",
    "k3": "credentials and the state directory do not exist for a command",
    "d1": "killed at any moment, nothing that was seen is lost",
    "d2": "a damaged log is mended and told",
    "d3": "a file is as it was or as it should be, never between",
    "d4": "a disk that refuses costs nothing that was there",
    "d5": "two programs in one workspace do not share a session",
    "r1": "endless output is bounded and ended",
    "r2": "a fork bomb is bounded and gone with its command",
}
EVERY_TIER = frozenset(
    {"p17", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s10", "s11", "m2", "k1", "k3", "r1", "r2"}
)
