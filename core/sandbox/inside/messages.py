"""The protocol between the engine and the processes that make a box: launch messages and reports.

A message is a dictionary in `marshal`'s format (both ends are the same interpreter) in an anonymous file, so no size
limits it. Three or four descriptors are sent with it. Paths and the environment are bytes: no locale affects them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from typing import Literal, TypedDict

    class CommandLaunch(TypedDict):
        """The common part of every launch: the command and its limits, sizes in bytes. `shared_namespaces`: the number
        of descriptors for a network that is shared: 0, 1 (network), or 2 (user, network)."""

        arguments: list[bytes]
        env: dict[bytes, bytes]
        processes: int
        open_files: int
        file_size: int
        memory: int
        shared_namespaces: int

    class OverlayRoot(TypedDict):
        """The host's directories as overlays, and a workspace with its layers; bubblewrap is started on such a root.

        Paths are absolute and real; `lowers` topmost first. Without an upper (b"") the layer is in memory, as is the
        layer of `masked` without `masks`, and the layer over `repository` without `repository_layer`.
        """

        workspace: bytes
        lowers: list[bytes]
        upper: bytes
        work: bytes
        masked: list[bytes]
        masks: bytes
        readable: list[bytes]
        writable: list[tuple[bytes, bytes]]  # a directory, and the path of its mount
        repository: bytes
        repository_layer: bytes
        cache: bytes
        temporary: bytes

    class NamespaceLaunch(CommandLaunch, OverlayRoot):
        """Launch of one command by the fork server. Absolute, real paths; b"" for none."""

        cwd: bytes
        home: bytes
        git_settings: bytes
        hidden: list[bytes]
        withheld: list[bytes]
        proxy: bytes
        services: list[tuple[int, bytes, bytes]]  # port or 0, else the path of a socket; the head that names it
        processes_by_pid: int  # 0: the limit of the user or the cgroup holds; else the largest pid in the box
        owner: tuple[int, int] | None  # of the workspace, if root runs it: the command's user and group
        scratch: int  # bytes
        takes_edits: bool  # a descriptor comes with it, on which the engine sends edits of the workspace

    class SupervisorLaunch(CommandLaunch):
        """Launch of one command below a supervisor. `root` None is the host's own root.

        `bubblewrap`: the arguments are those of bubblewrap, which writes its status to descriptor STATUS; its innermost
        shell signals on READY that the command runs, and it may read `git_settings` from SETTINGS. `families`: the
        allowed socket families. `rules`: Landlock's, None for bubblewrap. `scratch`: bytes of the root's tmpfs.
        `user`: the user and group that root becomes; None: the same.
        `leaves_processes`: nothing bounds their number, and what the command leaves running goes on. `has_overlay`:
        the workspace is an overlay, which refuses some renames.
        """

        cwd: bytes
        bubblewrap: bool
        git_settings: bytes
        root: OverlayRoot | None
        scratch: int
        rules: list[tuple[str, int]] | None
        families: list[int]
        user: tuple[int, int] | None
        leaves_processes: bool
        has_overlay: bool

    # ("started",): the command runs. ("failed", step, errno, text): it could not be started. ("exit", code): it has
    # ended. ("left", commands): what it left running, as command lines. ("memory",): it was ended for exceeding its
    # memory. ("gone", kills): the whole box has ended; `kills`: processes that the kernel killed for memory.
    BoxReport = (
        tuple[Literal["started"]]
        | tuple[Literal["failed"], str, int, str]
        | tuple[Literal["exit"], int]
        | tuple[Literal["left"], list[bytes]]
        | tuple[Literal["memory"]]
        | tuple[Literal["gone"], int]
    )

RUN = b"run"
INTERRUPT = b"interrupt"
TERMINATE = b"terminate"

# The descriptor numbers in every process of a box; 0 to 2 are the command's own.
CONTROL, PROXY, FIRST_FREE = 3, 4, 5
RENAMER = 4  # in the command's own process, which has no use for the proxy
PROXY_PORT = 3128

# The descriptors of a supervisor's child, besides the command's own three.
STATUS, READY, FILTER, SETTINGS = 3, 4, 5, 6
RUNNING = b"r"
