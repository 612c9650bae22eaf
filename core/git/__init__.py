"""Git for this program itself: run from one module, and never with the configuration of a repository.

A project may be hostile. So this package runs the `git` program on a directory of its own that represents the
repository (`repository`). GitPython is installed, but not used for it:

- `Git.execute` starts git with all of this process's environment, where GIT_DIR, GIT_TRACE or GIT_CONFIG_KEY_0 decide
  what is read, written and run. This package passes an allow-list.
- `Repo(path)` accepts a `.git` file and a `commondir` wherever they point, and reads the configuration with all of its
  includes. `layout` accepts them only if the other end confirms the project.
- Its readers run in this process: a FIFO at `.git/config` or in `refs` blocks a thread for good, and the size of an
  unpacked object is unbounded. A program has a time-out and a bound on its output.
- It supports no SHA-256 names, no reftable and no index of version 4, which git handles like all others.
- Importing it takes longer than a status does, and starts the first `git` on PATH, which may belong to the project.
"""
