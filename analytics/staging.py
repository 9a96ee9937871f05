"""The staging folder of a run: what tasks and driver hand to each other beside Spark, and what is gone at the end.

BL-74. A run has a folder of its own, named by a number that no other run has, so nobody takes what a dead run has left
for something whole; the next run on the same file system removes it. Whoever holds the lock of a run's file lives.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import secrets
import shutil
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.fs as pafs  # type: ignore[import-untyped]

from roamcast.analytics.engine import EngineError

PREFIX, LOCK = ".audit-", ".lock"
"""Hidden: who reads what else is in the place does not see it."""

_ALIGN = 64


def local_path(url: str) -> str | None:
    """The path that a `file:` URL or a plain path means; None: it is elsewhere."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return unquote(parts.path)
    return None if "://" in url else url


@dataclass(frozen=True)
class Folder:
    """A folder of this machine, or of any file system that Arrow knows (s3:, gs:, hdfs:). Goes to the tasks."""

    url: str

    def place(self, name: str = "") -> tuple[Any, str]:
        """File system, and the path there of something in the folder."""
        local = local_path(self.url)
        if local is not None:
            return pafs.LocalFileSystem(use_mmap=True), os.path.join(local, name)
        system, path = pafs.FileSystem.from_uri(self.url.replace("s3a://", "s3://", 1))
        return system, f"{path}/{name}"

    def within(self, name: str) -> Folder:
        """A folder in this one; made when something is put into it."""
        return Folder(f"{self.url}/{name}")

    def remove(self) -> None:
        """Remove it and all that is in it, if it is there."""
        system, path = self.place()
        with suppress(FileNotFoundError):
            system.delete_dir(path)

    def put(self, name: str, thing: Any) -> None:
        """Keep an object; arrays in it are written as they lie in memory. Not to be read by others: it is a pickle."""
        arrays: list[pickle.PickleBuffer] = []
        head = pickle.dumps(thing, protocol=5, buffer_callback=arrays.append)
        parts = [memoryview(head), *(each.raw() for each in arrays)]
        system, path = self.place(name)
        system.create_dir(os.path.dirname(path), recursive=True)
        with system.open_output_stream(path) as file:
            file.write(struct.pack(f"<{len(parts) + 1}Q", len(parts), *(len(part) for part in parts)))
            for part in parts:
                file.write(b"\0" * (-file.tell() % _ALIGN))
                file.write(part)

    def get(self, name: str) -> Any:
        """Return a kept object. Its arrays lie in the mapped file where there can be one, and must not be changed."""
        system, path = self.place(name)
        with system.open_input_file(path) as file:
            data = memoryview(file.read_buffer(file.size()))
        (count,) = struct.unpack_from("<Q", data)
        at = 8 * (count + 1)
        parts = []
        for length in struct.unpack_from(f"<{count}Q", data, 8):
            at += -at % _ALIGN
            parts.append(data[at : at + length])
            at += length
        return pickle.loads(parts[0], buffers=parts[1:])


class Staging:
    """A run's folder below `where`, which is made if need be; removed by `close`.

    Raises:
        EngineError: it cannot be made.
    """

    def __init__(self, where: str) -> None:
        name = PREFIX + secrets.token_hex(8)
        self._lock: BinaryIO | None = None
        local = local_path(where)
        try:
            if local is not None:
                local = os.path.abspath(local)
                os.makedirs(local, exist_ok=True)
                remove_stale(Path(local))
                self._lock = _locked(Path(local), name)
            self.folder = Folder((local or where).rstrip("/") + "/" + name)
            system, path = self.folder.place()
            system.create_dir(path, recursive=True)
            if local is not None:
                os.chmod(path, 0o700)  # pickles are read from it
        except (OSError, ValueError, pa.ArrowException) as error:
            raise EngineError(f"{where}: no staging folder can be made here ({error})") from None
        self.local: Path | None = Path(local, name) if local is not None else None
        """Where it is, on a file system of this machine."""

    def close(self) -> None:
        """Remove everything of this run."""
        if self.local is not None:
            shutil.rmtree(self.local, ignore_errors=True)
        else:
            self.folder.remove()
        if self._lock is not None:
            if self.local is not None:
                self.local.with_suffix(LOCK).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None


def remove_stale(where: Path) -> None:
    """Remove what runs have left that are dead."""
    for path in where.glob(f"{PREFIX}*{LOCK}"):
        try:
            with path.open("rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink(missing_ok=True)
        except OSError:  # somebody holds it, or has just removed it
            continue


def _locked(where: Path, name: str) -> BinaryIO:
    """The lock file of a run: locked before it has the name under which others look for it."""
    file = (where / f".new{name}").open("xb")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.rename(file.name, where / (name + LOCK))
    return file
