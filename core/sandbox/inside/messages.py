"""The protocol between the engine and the processes that make a box: launch messages and reports.

A message is a dictionary in `marshal`'s format (both ends are the same interpreter) in an anonymous file, so no size
limits it. Three or four descriptors are sent with it. Paths and the environment are bytes: no locale affects them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from typing import Literal, TypedDict

    class NamespaceLaunch(TypedDict):
        """Launch of one command by the fork server. Absolute, real paths; b"" for none. Sizes in bytes."""

        arguments: list[bytes]
        env: dict[bytes, bytes]
        workspace: bytes
        cwd: bytes
        lowers: list[bytes]
        upper: bytes
        work: bytes
        home: bytes
        cache: bytes
        readable: list[bytes]
        hidden: list[bytes]
        withheld: list[bytes]
        masked: list[bytes]
        masks: bytes  # where the layer for what is masked is made; empty: in memory
        proxy: bytes
        processes: int
        processes_by_pid: int  # 0: the limit of the user or the cgroup holds; else the largest pid in the box
        owner: tuple[int, int] | None  # of the workspace, if root runs it: the command's user and group
        open_files: int
        file_size: int
        memory: int
        scratch: int

    # ("started",): the command runs. ("failed", step, errno, text): it never will. ("exit", code): it has ended.
    # ("memory",): ended for the memory it took. ("gone", kills): nothing of the box is left; `kills`: by the kernel,
    # for memory.
    BoxReport = (
        tuple[Literal["started"]]
        | tuple[Literal["failed"], str, int, str]
        | tuple[Literal["exit"], int]
        | tuple[Literal["memory"]]
        | tuple[Literal["gone"], int]
    )

RUN = b"run"
INTERRUPT = b"interrupt"
TERMINATE = b"terminate"

# Where the descriptors are in every process of a box: 0 to 2 are the command's own.
CONTROL, PROXY, FIRST_FREE = 3, 4, 5
PROXY_PORT = 3128
