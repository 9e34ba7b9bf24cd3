"""The helper that stands between a job and a folder: a FUSE file system that passes everything on.

    python -I fuse_mount.py TAG CONFIG

CONFIG is JSON: `mount` (the folder), `where` (the pattern), `pid` (of the victim, whose namespaces it
enters), `hits` (the file for proofs), `limit_s`, `fault` and its `params`, and `packages` (where mfusepy is).
It says `ready` on standard output once the folder is mounted over. When its standard input ends (the tool is
gone, or has undone the fault) or at the limit, it lets every write through, takes the mount away for whoever
opens a file from then on, and ends when the last file is closed.

    python -I -S fuse_mount.py --detach PID FOLDER

takes away a mount whose helper was killed, as PID sees it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MNT_DETACH = 2
STAT = ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks")
STATVFS = (
    "f_bsize",
    "f_frsize",
    "f_blocks",
    "f_bfree",
    "f_bavail",
    "f_files",
    "f_ffree",
    "f_favail",
    "f_namemax",
)

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """See the module's docstring."""
    if sys.argv[1] == "--detach":
        enter_namespaces(int(sys.argv[2]))
        detach(sys.argv[3])
        return
    # Started by path, so that nothing but this project's own folder is added to the path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    tag, config = sys.argv[1], json.loads(sys.argv[2])
    # Where the tool found it; -I leaves out what only PYTHONPATH knows.
    sys.path.append(config["packages"])
    import mfusepy

    from injectors.agent import act_storage

    hits = os.open(config["hits"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    enter_namespaces(int(config["pid"]))
    make = act_storage.RULES[config["fault"]]
    rule = make(config["params"], config["where"], lambda line: _say(hits, line))
    root = os.open(config["mount"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    operations = Passing(root, config["mount"], rule)
    watch = threading.Thread(
        target=end_at_word, args=(config["mount"], rule, float(config["limit_s"])), daemon=True
    )
    watch.start()
    mfusepy.FUSE(
        operations,
        config["mount"],
        foreground=True,
        nothreads=True,
        fsname=tag,
        subtype="torch-chaos",
        default_permissions=True,
        attr_timeout=0,
        entry_timeout=0,
    )


def enter_namespaces(pid: int) -> None:
    """Be where the victim is, so that it sees the mount and nobody else does who does not share its view.

    Raises:
        OSError: the kernel refuses it.
    """
    for name, flag in (("user", CLONE_NEWUSER), ("mnt", CLONE_NEWNS)):
        theirs = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(theirs).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
                _call("setns", theirs, flag)
        finally:
            os.close(theirs)


def end_at_word(mount: str, rule: Any, limit_s: float) -> None:
    """Wait for the end of standard input or for the limit; then let writes through and unmount."""
    select.select([0], [], [], limit_s)
    rule.active = False
    detach(mount)


def detach(mount: str) -> None:
    """Take the topmost mount on a folder away; files that are open through it stay so."""
    _call("umount2", os.fsencode(mount), MNT_DETACH)


class Passing:
    """Passes every operation on to the folder below, which is open since before it was mounted over."""

    use_ns = True

    def __init__(self, root: int, mount: str, rule: Any) -> None:
        self._root = root
        self._mount = os.path.realpath(mount)
        self._rule = rule

    # -- files

    def create(self, path: str, mode: int, flags: int | None = None) -> int:
        wanted = os.O_CREAT | os.O_CLOEXEC | (os.O_RDWR | os.O_TRUNC if flags is None else flags)
        return os.open(_rel(path), wanted, mode, dir_fd=self._root)

    def open(self, path: str, flags: int) -> int:
        # The kernel has done with O_APPEND: it says where each write goes.
        return os.open(_rel(path), (flags | os.O_CLOEXEC) & ~os.O_APPEND, dir_fd=self._root)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        from injectors.agent.files import Write

        whole = self._mount + path
        if not self._rule.covers(whole):
            return os.pwrite(fh, data, offset)
        view = memoryview(data)
        asked = Write(whole, fh, offset, view, lambda part: os.pwrite(fh, part, offset), lambda size: None)
        return int(self._rule.write(asked))

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        fd = os.open(_rel(path), os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._root) if fh is None else fh
        try:
            os.ftruncate(fd, length)
        finally:
            if fh is None:
                os.close(fd)

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        if self._rule.covers(self._mount + path):
            self._rule.sync(self._mount + path, fh)
        (os.fdatasync if datasync else os.fsync)(fh)

    def flush(self, path: str, fh: int) -> None:
        """Nothing is buffered here."""

    def release(self, path: str, fh: int) -> None:
        os.close(fh)

    # -- names

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        seen = os.stat(_rel(path), dir_fd=self._root, follow_symlinks=False) if fh is None else os.fstat(fh)
        times = {f"st_{name}": getattr(seen, f"st_{name}_ns") for name in ("atime", "mtime", "ctime")}
        return {**{name: getattr(seen, name) for name in STAT}, **times}

    def readdir(self, path: str, fh: int) -> list[str]:
        fd = os.open(_rel(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._root)
        try:
            return [".", "..", *os.listdir(fd)]
        finally:
            os.close(fd)

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(_rel(path), mode, dir_fd=self._root)

    def rmdir(self, path: str) -> None:
        os.rmdir(_rel(path), dir_fd=self._root)

    def unlink(self, path: str) -> None:
        os.unlink(_rel(path), dir_fd=self._root)

    def rename(self, old: str, new: str) -> None:
        os.replace(_rel(old), _rel(new), src_dir_fd=self._root, dst_dir_fd=self._root)

    def link(self, target: str, source: str) -> None:
        os.link(_rel(source), _rel(target), src_dir_fd=self._root, dst_dir_fd=self._root)

    def symlink(self, target: str, source: str) -> None:
        os.symlink(source, _rel(target), dir_fd=self._root)

    def readlink(self, path: str) -> str:
        return os.readlink(_rel(path), dir_fd=self._root)

    # -- attributes

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(_rel(path), mode, dir_fd=self._root)

    def chown(self, path: str, uid: int, gid: int) -> None:
        os.chown(_rel(path), uid, gid, dir_fd=self._root, follow_symlinks=False)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        now = time.time_ns()
        os.utime(_rel(path), ns=times or (now, now), dir_fd=self._root, follow_symlinks=False)

    def statfs(self, path: str) -> dict[str, int]:
        seen = os.fstatvfs(self._root)
        return {name: getattr(seen, name) for name in STATVFS}

    def init_with_config(self, connection: Any, config: Any) -> None:
        """Called once the kernel has answered: the folder is mounted over."""
        os.write(1, b"ready\n")


def _rel(path: str) -> str:
    return path[1:] or "."


def _say(fd: int, line: Mapping[str, Any]) -> None:
    os.write(fd, json.dumps(line).encode() + b"\n")


def _call(name: str, *args: object) -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        # Instead of `ready`; afterwards nobody listens, and the mount's end is what is seen.
        print(f"{type(error).__name__}: {error}", flush=True)
        sys.exit(1)
