"""Run a command in a user and PID namespace of its own, so that nothing of it outlives whoever started it.

Run as a program: `contain.py STATUS_FD HOLD_FD NAMESPACES COMMAND...`. NAMESPACES are descriptors of existing
namespaces (a node's) to enter first, separated by commas, `-` for none. It becomes three processes: a
launcher (outside, its end is what the engine waits for), an init (pid 1 of the namespace: reaps orphans, and
takes everything with it when it ends) and the command. The init is not the command itself: as pid 1 a program
ignores signals that it does not handle, and its end would destroy the orphans that we want to see.

STATUS_FD receives one JSON line, {"init": pid} in the engine's pid namespace, then {"code", "signal"} when
the command ended. The init then waits until HOLD_FD reaches its end, so that the engine can look at what is
left, and ends. Exit status 125 and {"refused": reason}: the kernel allows no such namespace; nothing was
started.

`contain.py - - NAMESPACES COMMAND...` enters the namespaces and becomes the command: for a kernel that
refuses further ones.

Standard library only, no import of ours: it is started by path.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1
REFUSED = 125

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: object) -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def die_with_parent() -> None:
    """SIGKILL for this process when its parent's thread ends."""
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def join(namespaces: str) -> None:
    """Enter namespaces that are there already; see the module's docstring.

    Raises:
        OSError: the kernel refuses it.
    """
    for fd in map(int, namespaces.split(",") if namespaces != "-" else ()):
        _call("setns", fd, 0)
        os.close(fd)


def enter_namespaces() -> None:
    """Own user and PID namespace for the children of this process; the user keeps its own name and number.

    Raises:
        OSError: the kernel refuses it.
    """
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def own_proc() -> None:
    """Mount a /proc that shows the namespace's processes only, under their own numbers."""
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    _call("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)


def say(fd: int, **message: object) -> None:
    """One JSON line; nobody may be listening any more."""
    try:
        os.write(fd, json.dumps(message).encode() + b"\n")
    except OSError:
        pass


def init(status_fd: int, hold_fd: int, command: list[str]) -> int:
    """Pid 1: start the command, reap, report, wait for the word, and take the namespace down."""
    own_proc()
    main = os.fork()
    if main == 0:
        os.close(status_fd)
        os.close(hold_fd)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        os._exit(127)
    status = 0
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == main:
            break
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    say(status_fd, code=None if ended_by else os.WEXITSTATUS(status), signal=ended_by)
    os.close(status_fd)
    # Orphans keep running while the engine looks at them; those that end meanwhile are not reaped, and show
    # as ended.
    os.read(hold_fd, 1)
    return 0


def main() -> int:
    """See the module's docstring."""
    namespaces, command = sys.argv[3], sys.argv[4:]
    if sys.argv[1] == "-":
        join(namespaces)
        os.execvp(command[0], command)
    status_fd, hold_fd = int(sys.argv[1]), int(sys.argv[2])
    die_with_parent()
    try:
        join(namespaces)
        enter_namespaces()
        # Entering may have cleared it.
        die_with_parent()
    except OSError as error:
        say(status_fd, refused=str(error))
        return REFUSED
    child = os.fork()
    if child == 0:
        die_with_parent()
        try:
            os._exit(init(status_fd, hold_fd, command))
        except OSError as error:
            say(status_fd, refused=str(error))
            os._exit(REFUSED)
    say(status_fd, init=child)
    os.close(status_fd)
    os.close(hold_fd)
    _, status = os.waitpid(child, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0


if __name__ == "__main__":
    sys.exit(main())
