"""The machine's folder, where the runs of all users meet: `devices/` for locks, `tickets/` for waiting runs.

Everybody may write into it, so nothing in it is trusted: links are not followed, only plain files of one name are
opened, and their content is bounded and checked by whoever reads it.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jtrain.errors import LaunchError

_SYSTEM_LOCKS = Path("/run/lock")
_STICKY = 0o1777
_DEVICE_ID = re.compile(r"(CPU|GPU|MIG)-[A-Za-z0-9_./-]{1,120}")
_LARGEST_BYTES = 64 * 1024


@dataclass(frozen=True)
class MachinePaths:
    """Names in the machine's folder."""

    root: Path

    @classmethod
    def find(cls, environ: Mapping[str, str] | None = None) -> MachinePaths:
        """The folder of this machine, made if need be.

        `$JTRAIN_MACHINE_DIR`; else `/run/lock/jtrain` where every user may make it or it is there already; else
        `jtrain` in the folder for temporary files. Raises LaunchError when it can't be used.
        """
        given = (os.environ if environ is None else environ).get("JTRAIN_MACHINE_DIR")
        if given:
            root = Path(given).expanduser().absolute()
        elif _is_for_everybody(_SYSTEM_LOCKS) or _is_for_everybody(_SYSTEM_LOCKS / "jtrain"):
            root = _SYSTEM_LOCKS / "jtrain"
        else:
            # The same for all users, whatever their TMPDIR says.
            root = (Path("/tmp") if _is_for_everybody(Path("/tmp")) else Path(tempfile.gettempdir())) / "jtrain"
        paths = cls(root)
        paths.prepare()
        return paths

    @property
    def devices(self) -> Path:
        return self.root / "devices"

    @property
    def tickets(self) -> Path:
        return self.root / "tickets"

    def lock(self, uuid: str) -> Path:
        """The lock file of a device. Raises ValueError for what can't be a device's UUID."""
        if not _DEVICE_ID.fullmatch(uuid):
            raise ValueError(f"{uuid!r} is no UUID of a device")
        return self.devices / f"{uuid.replace('/', '_')}.lock"

    def prepare(self) -> None:
        """Make the folders, writable by everybody. Raises LaunchError when they can't be used."""
        try:
            self.root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.root, self.devices, self.tickets):
                _make_folder(folder)
        except OSError as error:
            raise LaunchError(
                f"the folder {self.root}, where runs on this machine share devices, can't be used "
                f"({error.strerror or error}); set JTRAIN_MACHINE_DIR to a folder that all its users may write to"
            ) from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir()
    except FileExistsError:
        pass
    else:
        folder.chmod(_STICKY)  # `mkdir` obeys the umask
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) and not (stat.S_ISLNK(status.st_mode) and status.st_uid in (0, os.getuid())):
        raise OSError(f"{folder} is not a folder, or a link that somebody else has put there")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise OSError(f"{folder} may not be written to")


def _is_for_everybody(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) & _STICKY == _STICKY


def open_shared(path: Path, *, create: bool = False) -> int:
    """A read-only descriptor of a file that any user may have made; with `create`, made for everybody if missing.

    It is opened without O_CREAT first: in sticky folders the kernel refuses that flag on other users' files
    (fs.protected_regular, Documentation/admin-guide/sysctl/fs.rst). Raises OSError, also for links and special files.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(10):
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            if not create:
                raise
            try:
                descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                continue
            os.fchmod(descriptor, 0o666)  # `open` obeys the umask
        if _is_plain(descriptor):
            return descriptor
        os.close(descriptor)
        raise OSError(f"{path} is not a plain file")
    raise OSError(f"{path} appears and disappears")


def _is_plain(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and status.st_nlink <= 1


def read_bounded(descriptor: int, most_bytes: int = _LARGEST_BYTES) -> bytes:
    """The file's content from its start; raises ValueError when it is longer than `most_bytes`."""
    content = os.pread(descriptor, most_bytes + 1, 0)
    if len(content) > most_bytes:
        raise ValueError(f"longer than {most_bytes} bytes")
    return content
