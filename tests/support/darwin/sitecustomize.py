# Makes CPython on Linux look like Darwin's, in each process of an environment that has it in its site-packages.
# Written for the issue on macOS; NO_DARWIN=1 switches it off, SIM_LOG logs calls that are missing there.
import os, sys
if os.environ.get("NO_DARWIN") != "1":
    try:
        import truststore
        import psutil  # its C module is for Linux: load it first
    except Exception:
        pass
    import errno, builtins, io, types
    if os.environ.get("SIM_SIP") or True:   # macOS gives no environment of the system's own binaries
        _env = psutil.Process.environ
        def environ(self):
            if self.pid != os.getpid() and os.path.realpath(self.exe()).startswith(("/usr/bin/","/bin/","/sbin/","/usr/sbin/")): return {}
            return _env(self)
        psutil.Process.environ = environ
    def _drop(mod, names=(), prefixes=()):
        for n in list(vars(mod)):
            if n in names or any(n.startswith(p) for p in prefixes):
                try: delattr(mod, n)
                except AttributeError: pass
    import signal, select, socket, resource, fcntl, time, ctypes, subprocess, selectors, asyncio, platform, shutil
    _real_mknod = os.mknod
    _uname = os.uname()
    osnames = {"O_PATH","O_TMPFILE","O_DIRECT","O_NOATIME","O_RSYNC","O_LARGEFILE","memfd_create","pidfd_open","copy_file_range","splice","eventfd","eventfd_read","eventfd_write","unshare","setns","posix_fadvise","posix_fallocate","sched_setaffinity","sched_getaffinity","sched_setscheduler","sched_getscheduler","sched_setparam","sched_getparam","sched_param","sched_rr_get_interval","getrandom","getxattr","setxattr","listxattr","removexattr","fdatasync","pipe2","setresuid","setresgid","getresuid","getresgid","P_PIDFD","posix_spawn_file_actions","timerfd_create","timerfd_settime","timerfd_gettime","plock","waitid_result" if sys.version_info<(3,13) else ""}
    if sys.version_info < (3,13): osnames.add("waitid")
    import posix; os.process_cpu_count = os.cpu_count
    for m in (os, posix):
        _drop(m, osnames, ("MFD_","CLONE_","EFD_","SPLICE_","GRND_","XATTR_","POSIX_FADV","SCHED_BATCH","SCHED_IDLE","SCHED_RESET","RWF_","TFD_"))
    os.getxattr if False else None
    _drop(signal, {"sigwaitinfo","sigtimedwait","pidfd_send_signal","SIGRTMIN","SIGRTMAX","SIGPWR","SIGSTKFLT","SIGCLD","SIGPOLL"})
    _drop(select, {"epoll"})
    _drop(socket, {"SO_PEERCRED","SO_PASSCRED","SCM_CREDENTIALS","AF_NETLINK","AF_PACKET","SOCK_CLOEXEC","SOCK_NONBLOCK","MSG_CMSG_CLOEXEC","SO_BINDTODEVICE","SO_DOMAIN","SO_PROTOCOL","SO_PASSSEC","SO_PEERSEC","SO_MARK","TCP_USER_TIMEOUT","TCP_QUICKACK","TCP_CORK","TCP_DEFER_ACCEPT","TCP_INFO","TCP_LINGER2","TCP_SYNCNT","TCP_WINDOW_CLAMP","TCP_CONGESTION"} | ({"TCP_KEEPIDLE"}), ("AF_ALG","ALG_","CAN_","AF_TIPC","TIPC_","NETLINK_","PACKET_","AF_QIPCRTR"))
    socket.TCP_KEEPALIVE = 0x10
    _drop(resource, {"prlimit","RUSAGE_THREAD","RLIMIT_MSGQUEUE","RLIMIT_NICE","RLIMIT_OFILE","RLIMIT_RTPRIO","RLIMIT_RTTIME","RLIMIT_SIGPENDING"})
    _drop(fcntl, set(), ("F_OFD_","F_ADD_SEALS","F_GET_SEALS","F_SEAL_","F_SETPIPE_SZ","F_GETPIPE_SZ","F_NOTIFY","DN_","F_SETLEASE","F_GETLEASE","F_SETSIG","F_GETSIG"))
    _drop(time, {"CLOCK_BOOTTIME","CLOCK_TAI"})
    # errno numbers that part ways
    errno.ENOATTR = 93 if "ENOATTR" not in vars(errno) else errno.ENOATTR
    errno.EOPNOTSUPP_LINUX = errno.EOPNOTSUPP
    errno.EOPNOTSUPP = 10102   # macOS: 102, never what the kernel says here; ENOTSUP stays
    selectors.DefaultSelector = selectors.PollSelector if os.environ.get("SIM_POLL") else selectors.EpollSelector
    sys.platform = "darwin"
    os.uname_linux = os.uname
    os.uname = posix.uname = lambda: type(_uname)(("Darwin", _uname.nodename, "24.1.0", "Darwin Kernel Version 24.1.0", "arm64"))
    platform._uname_cache = None
    platform.system = lambda: "Darwin"
    platform.machine = lambda: "arm64"
    platform.mac_ver = lambda *a, **k: ("15.1", ("", "", ""), "arm64")
    platform.platform = lambda *a, **k: "macOS-15.1-arm64-arm-64bit"
    sc = types.ModuleType("_scproxy"); sc._get_proxy_settings = lambda: {}; sc._get_proxies = lambda: {}
    sys.modules["_scproxy"] = sc
    # char devices are root's
    import stat as _st
    def mknod(path, mode=0o600, device=0, *, dir_fd=None):
        if _st.S_ISCHR(mode) or _st.S_ISBLK(mode): raise PermissionError(errno.EPERM, "Operation not permitted", path)
        return _real_mknod(path, mode, device, dir_fd=dir_fd)
    os.mknod = posix.mknod = mknod
    # unlink of a directory: EPERM
    def _mk_unlink(real):
        def unlink(path, *, dir_fd=None):
            try: return real(path, dir_fd=dir_fd)
            except IsADirectoryError as e: raise PermissionError(errno.EPERM, "Operation not permitted", path) from None
        return unlink
    _u, _r = os.unlink, os.remove
    os.unlink = _mk_unlink(_u); os.remove = _mk_unlink(_r)
    os.supports_dir_fd.update({os.unlink, os.remove, os.mknod})
    os.supports_dir_fd.discard(os.mkfifo)
    # no /proc, /dev/shm, /run, /sys
    HIDDEN = ("/usr/bin/bwrap","/bin/bwrap","/usr/local/bin/bwrap","/proc","/dev/shm","/run","/sys")
    def _hidden(p):
        if isinstance(p, int) or p is None: return False
        try: s = os.fsdecode(os.fspath(p))
        except Exception: return False
        if not s.startswith(HIDDEN) or not any(s == h or s.startswith(h + "/") for h in HIDDEN): return False
        f = sys._getframe(2); n = 0
        while f is not None and n < 8:
            if "psutil" in f.f_code.co_filename: return False
            f = f.f_back; n += 1
        return True
    def _guard(real):
        def f(path=".", *a, **k):
            if _hidden(path): raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            return real(path, *a, **k)
        f.__name__ = getattr(real, "__name__", "f")
        return f
    for name in ("stat","lstat","open","listdir","scandir","readlink","statvfs"):
        real = getattr(os, name); g = _guard(real); setattr(os, name, g)
        for group in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if real in group: group.add(g)
    _acc = os.access
    def access(path, mode, **k): return False if _hidden(path) else _acc(path, mode, **k)
    os.access = access; os.supports_dir_fd.add(access)
    _open = io.open
    def open_(file, *a, **k):
        if _hidden(file): raise FileNotFoundError(errno.ENOENT, "No such file or directory", file)
        return _open(file, *a, **k)
    builtins.open = open_; io.open = open_
    # C library: what libSystem has not
    LINUX_C = {"prctl","statx","name_to_handle_at","open_by_handle_at","renameat2","memfd_create","getrandom","unshare","setns","mount","umount2","inotify_init","pidfd_open","copy_file_range","splice","eventfd","epoll_create1","pivot_root","close_range","fallocate","gettid","malloc_trim","mallopt","syncfs"}
    _CDLL = ctypes.CDLL
    class _Ren:
        argtypes = None; restype = None
        def __init__(self, real): self.real = real
        def __call__(self, a, b, c, d, flag):
            if os.environ.get("SIM_NO_RENAMEX"):
                ctypes.set_errno(errno.ENOTSUP); return -1
            r = self.real(ctypes.c_int(a), ctypes.c_char_p(b), ctypes.c_int(c), ctypes.c_char_p(d), ctypes.c_uint({2:2,4:1}[flag]))
            return r
    class CDLL(_CDLL):
        def __init__(self, name, *a, **k):
            if name and ("libc.so" in str(name)): raise OSError("dlopen(%s): no such file" % name)
            super().__init__(name, *a, **k)
        def __getattr__(self, n):
            if n == "renameatx_np": return _Ren(_CDLL.__getattr__(self, "renameat2"))
            if n in LINUX_C: raise AttributeError("dlsym(%s): symbol not found" % n)
            if n == "syscall":
                class _Sys:
                    restype = None; argtypes = None
                    def __call__(self, *a):
                        sys.stderr.write("SIGSYS: syscall() of Linux on Darwin\n"); os.kill(os.getpid(), signal.SIGSYS)
                s_ = self.__dict__.setdefault("syscall", _Sys()); return s_
            return super().__getattr__(n)
    ctypes.CDLL = CDLL
    import tempfile
    # the log of what is missing when asked for
    _log = os.environ.get("SIM_LOG")
    def _mod_getattr(mod):
        def __getattr__(n):
            if _log and n in osnames:
                f = sys._getframe(1)
                with _open(_log, "a") as out: out.write(f"os.{n} asked at {f.f_code.co_filename}:{f.f_lineno}\n")
            raise AttributeError(f"module 'os' has no attribute {n!r}")
        return __getattr__
    os.__getattr__ = _mod_getattr(os)

    if os.environ.get("SIM_FSEVENTS"):
        # notify < PR 971: FSEvents closes fd 0 once a stream has more than RLIMIT_NOFILE/10 paths
        import watchfiles, watchfiles.main
        _watch = watchfiles.watch
        def watch(*paths, **k):
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            if len(paths) > soft // 10:
                with _open(os.environ.get("DARWIN_LOG", os.devnull),"a") as out: out.write(f"{os.getpid()} {len(paths)} paths, limit {soft}: fd 0 closed\n")
                if os.environ["SIM_FSEVENTS"] == "refuse": raise OSError("Too many files: MaxFilesWatch")
                os.close(0)
            yield from _watch(*paths, **k)
        watchfiles.watch = watch
