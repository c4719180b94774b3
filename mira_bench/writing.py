r"""Files that appear complete or not at all."""

__all__ = ["appearing"]

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def appearing(path: Path, *, lasting: bool = False) -> Iterator[IO[bytes]]:
    r"""Opens a file that gets its name by a rename when all is written. Without room or rights, nothing is left behind.

    Arguments:
        path: The file. Its folder is made if it is not there.
        lasting: Whether to wait until the content is on the disk, so that it survives a loss of power.

    Yields:
        The file, to be written as bytes.
    """

    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
