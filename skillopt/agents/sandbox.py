"""Bubblewrap where this machine has it: a program sees the system, its own files, its workspace, nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.agents.process import run_process
from skillopt.agents.workspace import Workspace, write_private

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/snap")
_ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "fonts", "gai.conf", "host.conf"),
    *("hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "os-release"),
    *("pki", "protocols", "resolv.conf", "services", "ssl", "terminfo", "timezone"),
)
_PLAIN = (
    "each run has a fresh workspace, a private HOME and only its own credentials, but the program could read other "
    "files of this user"
)
_FIRM = "each run sees the system, its workspace and a private HOME, and no other file of this user"
_NOBODY = 1000


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How programs are kept apart. ``program`` is bubblewrap's path ('' : it is not used); ``isolation`` says in words
    what holds."""

    program: str = ""
    isolation: str = f"no bubblewrap: {_PLAIN}"

    def wrap(
        self, argv: Sequence[str], space: Workspace, readable: Sequence[Path], hidden: Sequence[Path]
    ) -> list[str]:
        """``argv`` so that it runs inside. ``readable`` are files and directories that it needs beside the system's,
        ``hidden`` those that it must not see even if they lie in a directory that it needs. Writes two small files."""
        if not self.program:
            return list(argv)
        write_private(space.desk / "passwd", f"agent:x:{_uid()}:{_gid()}::{space.home}:/bin/sh\n".encode())
        write_private(space.desk / "group", f"agent:x:{_gid()}:\n".encode())
        inside = [*_base_arguments(self.program), "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]
        for name in ("passwd", "group"):
            inside += ["--ro-bind", str(space.desk / name), f"/etc/{name}"]
        bound = [Path(folder) for folder in _SYSTEM]
        for path in dict.fromkeys((*installation(argv[0]), *readable)):
            if path.exists() and not any(path.is_relative_to(folder) for folder in _SYSTEM):
                inside += ["--ro-bind", str(path), str(path)]
                bound.append(path)
        inside += _covers(hidden, bound, _chain(Path(argv[0])))
        return [*inside, "--bind", str(space.root), str(space.root), "--chdir", str(space.work), "--", *argv]


def _covers(hidden: Sequence[Path], bound: Sequence[Path], program: Sequence[Path]) -> list[str]:
    """The arguments that lay something empty over each of ``hidden`` wherever ``bound`` directories show it; what of
    the ``program`` lies under it is put back."""
    covers: list[str] = []
    for path in hidden:
        places = {folder / path.relative_to(folder.resolve()) for folder in bound if _holds(folder.resolve(), path)}
        for place in sorted(places):
            if path.is_dir():
                again = [step for step in dict.fromkeys(program) if _holds(place, step)]
                covers += ["--tmpfs", str(place)]
                covers += [word for step in again for word in ("--ro-bind", str(step), str(step))]
            elif path.exists():
                covers += ["--ro-bind", os.devnull, str(place)]
    return covers


def _holds(folder: Path, path: Path) -> bool:
    return path.is_relative_to(folder)


async def find_sandbox(environ: Mapping[str, str]) -> Sandbox:
    """Bubblewrap when it is installed and works here (it is tried once), else none, and why."""
    if sys.platform != "linux":
        return Sandbox(isolation=f"no bubblewrap on this system: {_PLAIN}")
    program = shutil.which("bwrap", path=environ.get("PATH"))
    if program is None:
        return Sandbox(isolation=f"bubblewrap (bwrap) is not installed: {_PLAIN}")
    argv = [*_base_arguments(program), "--", "true"]
    try:
        tried = await run_process(argv, stdin=b"", cwd=Path("/"), env={"PATH": os.defpath}, timeout=10.0)
    except OSError as error:
        return Sandbox(isolation=f"bubblewrap cannot be started ({error.strerror}): {_PLAIN}")
    if tried.returncode != 0 or tried.timed_out:
        said = tried.stderr.decode("utf-8", "replace").strip()[-200:]
        return Sandbox(isolation=f"bubblewrap does not work here ({said or 'no reason given'}): {_PLAIN}")
    return Sandbox(program, f"bubblewrap: {_FIRM}")


def _uid() -> int:
    if sys.platform == "win32":
        return _NOBODY
    return os.getuid() or _NOBODY  # some programs refuse to act on their own for root


def _gid() -> int:
    if sys.platform == "win32":
        return _NOBODY
    return os.getgid() or _NOBODY


def _base_arguments(program: str) -> list[str]:
    argv = [program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    argv += ["--uid", str(_uid()), "--gid", str(_gid()), "--die-with-parent", "--new-session", "--hostname", "agent"]
    for folder in _SYSTEM:
        argv += ["--ro-bind-try", folder, folder]
    for name in _ETC:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return [*argv, "--proc", "/proc", "--dev", "/dev"]


def installation(program: str) -> tuple[Path, ...]:
    """The directories that a program and its interpreter were installed to, as far as they can be told from its path:
    where it stands and where its links lead, the libraries beside a ``bin``, the packages around a script."""
    found: dict[Path, None] = {}
    for start in (program, _interpreter(Path(program))):
        if start:
            for step in _chain(Path(start)):
                found |= dict.fromkeys(_around(step))
    return tuple(found)


def _chain(path: Path) -> list[Path]:
    """``path`` and every path that its links lead over."""
    steps = [path]
    while steps[-1].is_symlink() and len(steps) < 20:
        steps.append(steps[-1].parent / os.readlink(steps[-1]))
    return [*steps, steps[-1].resolve()]


def _around(path: Path) -> list[Path]:
    folder = Path(os.path.normpath(path.parent))
    found = [folder]
    if "node_modules" in folder.parts:
        found = [Path(*folder.parts[: folder.parts.index("node_modules") + 1])]
    elif folder.name == "bin" and folder.parent != Path.home():
        names = ("lib", "lib64", "libexec", "pyvenv.cfg")
        found += [folder.parent / name for name in names if (folder.parent / name).exists()]
    return found


def _interpreter(program: Path) -> str | None:
    """The interpreter of a script, by its first line."""
    line = b""
    with contextlib.suppress(OSError), open(program, "rb") as handle:
        line = handle.readline(256)
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode("utf-8", "replace").split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return shutil.which(words[0]) if words else None
    return words[0] if words else None
