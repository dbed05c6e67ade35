"""Pictures: recognised by their bytes, left alone when they fit, scaled down when they do not."""

from __future__ import annotations

import io
import random
import struct
import sys
import zlib
from pathlib import Path

import pytest

from skillopt.extras import install_hint
from skillopt.models.images import LARGEST, LONGEST_SIDE, Header, ImageError, load_image, read_header


def png(width: int, height: int) -> bytes:
    """A grey PNG, written by hand: these tests need no Pillow."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\x00" + b"\x80" * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2\x00\x0b\x08\x00\x11\x00\x22\x01\x01\x11\x00"
HEADERS = [
    (png(3, 2), Header("image/png", 3, 2)),
    (b"GIF89a\x05\x00\x04\x00;", Header("image/gif", 5, 4)),
    (JPEG, Header("image/jpeg", 34, 17)),
    (b"RIFF\x00\x00\x00\x00WEBPVP8 " + b"\x00" * 10 + b"\x07\x00\x06\x00", Header("image/webp", 7, 6)),
    (b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f\x07\x80\x01\x00", Header("image/webp", 8, 7)),
    (b"RIFF\x00\x00\x00\x00WEBPVP8X" + b"\x00" * 8 + b"\x09\x00\x00\x08\x00\x00", Header("image/webp", 10, 9)),
    (b"\x89PNG\r\n\x1a\n", Header("image/png", 0, 0)),
    (b"\xff\xd8\xff", Header("image/jpeg", 0, 0)),
    (b"BM what a bitmap is", None),
    (b"", None),
]


@pytest.mark.parametrize(("data", "header"), HEADERS)
def test_the_bytes_tell_what_a_picture_is(data: bytes, header: Header | None) -> None:
    assert read_header(data) == header


def test_a_picture_within_bounds_stays_as_it_is(tmp_path: Path) -> None:
    data = png(LONGEST_SIDE, 2)
    path = tmp_path / "wrong-name.jpg"
    path.write_bytes(data)
    for image in (load_image(path), load_image(str(path)), load_image(data)):
        assert (image.media_type, image.data) == ("image/png", data)


def test_without_pillow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert load_image(png(2, 2)).media_type == "image/png"
    for data, word in [
        (png(LONGEST_SIDE + 1, 2), f"{LONGEST_SIDE + 1}x2"),
        (png(2, 2) + b"\0" * LARGEST, str(LARGEST)),
        (b"BM", "neither PNG"),
        (b"\xff\xd8\xff", "cut or broken"),
    ]:
        with pytest.raises(ImageError, match=word) as caught:
            load_image(data)
        assert install_hint("images") in str(caught.value)


def test_what_is_no_picture_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"missing\.png cannot be read"):
        load_image(tmp_path / "missing.png")
    with pytest.raises(ImageError, match="is empty"):
        load_image(b"")
    pytest.importorskip("PIL", reason="needs the extra `images`")
    with pytest.raises(ImageError, match="no picture"):
        load_image(b"just words")
    with pytest.raises(ImageError, match="no picture"):
        load_image(png(2000, 2000)[:60])


def test_large_pictures_are_scaled_down() -> None:
    pil = pytest.importorskip("PIL.Image", reason="needs the extra `images`")
    image = load_image(png(4000, 1000))
    assert read_header(image.data) == Header("image/png", LONGEST_SIDE, LONGEST_SIDE // 4)
    photograph = pil.new("CMYK", (2000, 3000))
    buffer = io.BytesIO()
    photograph.save(buffer, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0")
    image = load_image(buffer.getvalue())
    assert read_header(image.data) == Header("image/jpeg", LONGEST_SIDE, round(LONGEST_SIDE * 2 / 3)), "upright"


def test_other_formats_are_converted() -> None:
    pil = pytest.importorskip("PIL.Image", reason="needs the extra `images`")
    for form, mode in (("BMP", "RGB"), ("TIFF", "P"), ("BMP", "1")):
        buffer = io.BytesIO()
        pil.new(mode, (20, 10)).save(buffer, form)
        assert read_header(load_image(buffer.getvalue()).data) == Header("image/png", 20, 10)


def test_a_large_file_is_written_smaller() -> None:
    pil = pytest.importorskip("PIL.Image", reason="needs the extra `images`")
    noise = random.Random(1).randbytes(1500 * 1500 * 4)
    buffer = io.BytesIO()
    pil.frombytes("RGBA", (1500, 1500), noise).save(buffer, "PNG", compress_level=0)
    assert buffer.tell() > LARGEST
    image = load_image(buffer.getvalue())
    assert image.media_type == "image/jpeg"
    assert len(image.data) <= LARGEST
    assert load_image(image.data) == image
