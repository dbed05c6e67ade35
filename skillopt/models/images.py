"""Pictures for models: read, recognised by their bytes, and made small enough for every provider."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillopt.extras import install_hint
from skillopt.models.types import Image

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

LONGEST_SIDE = 1568
"""Pixels. Providers scale larger pictures down themselves, after they have been sent and waited for."""
LARGEST = 3_932_160
"""Bytes. Written in base64 they are the 5 MiB that the strictest provider takes."""

_QUALITIES = (90, 75, 60)
_SHRINK = 0.75
_EXTRA = install_hint("images")


class ImageError(ValueError):
    """A picture that no model can be sent. The message says what is wrong with which one, and what to do."""


@dataclass(frozen=True, slots=True)
class Header:
    """What the first bytes of a picture tell: its media type, and width and height in pixels (0 when they do not)."""

    media_type: str
    width: int
    height: int

    def fits(self, size: int) -> bool:
        """Whether a file of ``size`` bytes can be sent as it is."""
        return 0 < max(self.width, self.height) <= LONGEST_SIDE and size <= LARGEST


def load_image(source: str | Path | bytes) -> Image:
    """The picture in a file, or in bytes, as it can be sent: PNG, JPEG, WebP or GIF, at most ``LONGEST_SIDE`` pixels
    long and ``LARGEST`` bytes large.

    A picture that is that already stays as it is, byte by byte; any other one is scaled down and written anew, which
    takes Pillow. Raises ``ImageError``.
    """
    if isinstance(source, bytes):
        return fitted(source, "the image")
    try:
        data = Path(source).read_bytes()
    except OSError as error:
        raise ImageError(f"the image {source} cannot be read: {error.strerror or error}") from None
    return fitted(data, f"the image {source}")


def fitted(data: bytes, name: str) -> Image:
    """The picture in ``data`` within bounds; ``name`` is what errors call it. Raises ``ImageError``."""
    if not data:
        raise ImageError(f"{name} is empty")
    header = read_header(data)
    if header is not None and header.fits(len(data)):
        return Image(header.media_type, data)
    try:
        import PIL  # noqa: F401 - the extra `images`, only where it is needed
    except ImportError:
        raise ImageError(f"{name} {_trouble(header, len(data))}, and nothing here can convert it: {_EXTRA}") from None
    return _converted(data, name)


def _trouble(header: Header | None, size: int) -> str:
    if header is None:
        return "is neither PNG, JPEG, WebP nor GIF"
    if not header.width:
        return "does not tell its size: it is cut or broken"
    if size > LARGEST:
        return f"has {size} bytes, and models take at most {LARGEST}"
    return f"is {header.width}x{header.height} pixels, and models take at most {LONGEST_SIDE} a side"


def read_header(data: bytes) -> Header | None:
    """What ``data`` is by its first bytes, whatever a file is called. None when it is no picture that models take."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return Header("image/png", *_two(">II", data, 16))
    if data.startswith((b"GIF87a", b"GIF89a")):
        return Header("image/gif", *_two("<HH", data, 6))
    if data.startswith(b"\xff\xd8\xff"):
        return Header("image/jpeg", *_jpeg_size(data))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return Header("image/webp", *_webp_size(data))
    return None


def _two(form: str, data: bytes, at: int) -> tuple[int, int]:
    if len(data) < at + struct.calcsize(form):
        return 0, 0
    first, second = struct.unpack_from(form, data, at)
    return first, second


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Width and height from the frame's header, which stands behind any number of other segments."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill bytes may precede a marker
            at += 1
        elif marker in range(0xC0, 0xD0) and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _two(">HH", data, at + 5)
            return width, height
        elif marker == 0x01 or marker in range(0xD0, 0xD8):  # these have no length
            at += 2
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = _two("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return 0, 0


def _converted(data: bytes, name: str) -> Image:
    """The first frame of a picture, upright, scaled down and written as PNG, or as JPEG when that is too large."""
    import PIL.Image
    from PIL import ImageOps

    try:
        with PIL.Image.open(io.BytesIO(data)) as opened:
            photograph = opened.format in ("JPEG", "MPO", "WEBP")
            picture: Picture = _true_colours(ImageOps.exif_transpose(opened))
            picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE), PIL.Image.Resampling.LANCZOS)
    except PIL.Image.DecompressionBombError:
        raise ImageError(f"{name} has more pixels than can be read safely: scale it down") from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise ImageError(f"{name} is no picture that can be read: {error}") from None
    flat = _flat(picture)
    while True:
        if not photograph and (written := _written(picture, "PNG")) is not None:
            return Image("image/png", written)
        for quality in _QUALITIES:
            if (written := _written(flat, "JPEG", quality=quality)) is not None:
                return Image("image/jpeg", written)
        flat = flat.resize((max(1, int(flat.width * _SHRINK)), max(1, int(flat.height * _SHRINK))))
        photograph = True


def _true_colours(picture: Picture) -> Picture:
    """The picture in a mode that scales smoothly and that PNG takes: a palette does not, CMYK is not taken."""
    if picture.mode in ("L", "LA", "RGB", "RGBA"):
        return picture
    return picture.convert("RGBA" if picture.has_transparency_data else "RGB")


def _flat(picture: Picture) -> Picture:
    """The picture without transparency, which JPEG has not: on white, like paper."""
    import PIL.Image

    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        ground = PIL.Image.new("RGBA", layer.size, "white")
        return PIL.Image.alpha_composite(ground, layer).convert("RGB")
    return picture.convert("RGB")


def _written(picture: Picture, form: str, **options: Any) -> bytes | None:
    """The file in the format ``form``, or None when it is too large."""
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    data = buffer.getvalue()
    return data if len(data) <= LARGEST else None
