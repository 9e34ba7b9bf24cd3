"""Writes a file in each step, in one way, and prints what came of it. argv: folder, way, steps, bytes.

A fifth argument is a pipe: the last step begins when there is a byte in it.
"""

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy
import torch

folder, way, steps, size = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
folder.mkdir(parents=True, exist_ok=True)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def by_open(path: pathlib.Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def by_text(path: pathlib.Path, data: bytes) -> None:
    path.write_text(data.decode("latin-1"), encoding="latin-1")


def by_os(path: pathlib.Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        while data:
            data = data[os.write(fd, data) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def by_pwrite(path: pathlib.Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        half = len(data) // 2
        for start, end in ((0, half), (half, len(data))):
            while start < end:
                start += os.pwrite(fd, data[start:end], start)
        os.writev(fd, [b"", b""])
    finally:
        os.close(fd)


def by_save(path: pathlib.Path, data: bytes) -> None:
    torch.save({"data": torch.frombuffer(bytearray(data), dtype=torch.uint8)}, path)


def by_stream(path: pathlib.Path, data: bytes) -> None:
    with path.open("wb") as file:
        torch.save({"data": torch.frombuffer(bytearray(data), dtype=torch.uint8)}, file)


def by_copy(path: pathlib.Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as source:
        source.write(data)
        source.flush()
        shutil.copyfile(source.name, path)


def by_gzip(path: pathlib.Path, data: bytes) -> None:
    with gzip.open(path, "wb", compresslevel=0) as file:
        file.write(data)


def by_numpy(path: pathlib.Path, data: bytes) -> None:
    """C code that writes by itself, through a stream of its own."""
    numpy.frombuffer(data, dtype=numpy.uint8).tofile(path)


def by_child(path: pathlib.Path, data: bytes) -> None:
    """Another process of the job."""
    subprocess.run(["dd", f"of={path}", "bs=8192", "status=none"], input=data, check=True)


write = globals()[f"by_{way}"]
for step in range(steps):
    if step == steps - 1 and len(sys.argv) > 5:
        with open(sys.argv[5], "rb", buffering=0) as word:
            word.read(1)
    path, start = folder / f"step-{step}.pt", time.monotonic()
    said = "ok"
    try:
        write(path, bytes(step + 1 for _ in range(size)))
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        said = f"{type(error).__name__}: {error}"
    other = folder / f"other-{step}"
    by_open(other, b"untouched")
    line = {"step": step, "said": said, "seconds": time.monotonic() - start, "other": other.stat().st_size}
    line["size"] = path.stat().st_size if path.exists() else None
    print(json.dumps(line), flush=True)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
