"""Media types: their plain form, and what bytes, names and headers say of them."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath

__all__ = ["find_type", "kind_of", "normal_type", "sniffed", "type_of_name"]

_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
"""RFC 6838, 4.2."""

_ALIASES: Mapping[str, str] = {
    "application/x-pdf": "application/pdf",
    "application/acrobat": "application/pdf",
    "application/x-zip": "application/zip",
    "application/x-zip-compressed": "application/zip",
    "audio/m4a": "audio/mp4",
    "audio/mp3": "audio/mpeg",
    "audio/mpeg3": "audio/mpeg",
    "audio/mpg": "audio/mpeg",
    "audio/vnd.wav": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-aac": "audio/aac",
    "audio/x-aiff": "audio/aiff",
    "audio/x-flac": "audio/flac",
    "audio/x-m4a": "audio/mp4",
    "audio/x-mp3": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/x-mpeg-3": "audio/mpeg",
    "audio/x-ogg": "audio/ogg",
    "audio/x-pn-wav": "audio/wav",
    "audio/x-wav": "audio/wav",
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/svg": "image/svg+xml",
    "image/tif": "image/tiff",
    "image/vnd.microsoft.icon": "image/x-icon",
    "image/x-bmp": "image/bmp",
    "image/x-citrix-jpeg": "image/jpeg",
    "image/x-citrix-png": "image/png",
    "image/x-ms-bmp": "image/bmp",
    "image/x-png": "image/png",
    "text/xml": "application/xml",
}

_UNSAID = frozenset(
    {"application/octet-stream", "application/x-download", "application/download", "binary/octet-stream"}
)
"""What servers say where they do not know."""

_OFFICE = "application/vnd.openxmlformats-officedocument"
_EXTENSIONS: Mapping[str, str] = {
    "aac": "audio/aac",
    "aif": "audio/aiff",
    "aiff": "audio/aiff",
    "avif": "image/avif",
    "bmp": "image/bmp",
    "csv": "text/csv",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "epub": "application/epub+zip",
    "flac": "audio/flac",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "htm": "text/html",
    "html": "text/html",
    "ico": "image/x-icon",
    "jar": "application/java-archive",
    "jpe": "image/jpeg",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "m4a": "audio/mp4",
    "md": "text/markdown",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odt": "application/vnd.oasis.opendocument.text",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "pdf": "application/pdf",
    "png": "image/png",
    "pptx": f"{_OFFICE}.presentationml.presentation",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "txt": "text/plain",
    "wav": "audio/wav",
    "weba": "audio/webm",
    "webp": "image/webp",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "zip": "application/zip",
}
"""Our own table: that of the operating system differs from machine to machine."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
)
_RIFF: Mapping[bytes, str] = {b"WAVE": "audio/wav", b"WEBP": "image/webp", b"AVI ": "video/x-msvideo"}
_BRANDS: Mapping[bytes, str] = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"msf1": "image/heif",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
}
"""Major brands of ISO media files (ISO/IEC 14496-12); any other is a video."""

_ZIP_BASED = frozenset(
    {each for name, each in _EXTENSIONS.items() if name in ("docx", "epub", "jar", "odp", "ods", "odt", "pptx", "xlsx")}
)
_BY_MEMBER: Mapping[str, str] = {
    "word/": _EXTENSIONS["docx"],
    "xl/": _EXTENSIONS["xlsx"],
    "ppt/": _EXTENSIONS["pptx"],
    "META-INF/MANIFEST.MF": _EXTENSIONS["jar"],
}
_MOST_MEMBERS = 1000
_TEXTUAL = re.compile(r"text/.+|application/(json|xml|yaml)|image/svg\+xml")
_SVG = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*|<!DOCTYPE\s+svg[^>]*>\s*)*<svg[\s>]", re.DOTALL
)
_HTML = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)[\s>]", re.DOTALL | re.IGNORECASE)
_HEAD = 4096
"""Bytes in which a text must show what it is."""


def normal_type(text: str | None) -> str | None:
    """The plain form of a media type: small letters, no parameters, the registered name in place of another.

    None where it is no media type, or one that says nothing, such as ``application/octet-stream``.
    """
    plain = (text or "").partition(";")[0].strip().lower()
    if not _TYPE.fullmatch(plain) or plain in _UNSAID:
        return None
    return _ALIASES.get(plain, plain)


def kind_of(media_type: str) -> str | None:
    """What attachment it makes: ``image``, ``pdf`` or ``audio``; None for anything else."""
    if media_type == "application/pdf":
        return "pdf"
    family = media_type.partition("/")[0]
    return family if family in ("image", "audio") else None


def type_of_name(name: str | None) -> str | None:
    """What the extension of a file or address says; None where it says nothing."""
    return _EXTENSIONS.get(PurePosixPath((name or "").replace("\\", "/")).suffix[1:].lower())


def sniffed(data: bytes) -> str | None:
    """What the first bytes say, None where they say nothing. A ZIP file is looked into."""
    for magic, media_type in _MAGIC:
        if data.startswith(magic):
            return _zip_type(data) if media_type == "application/zip" else media_type
    head = data[:_HEAD]
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "audio/aiff"
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    if head[:2] == b"BM" and len(data) >= 26 and int.from_bytes(head[2:6], "little") == len(data):
        return "image/bmp"
    if _SVG.match(head):
        return "image/svg+xml"
    if _HTML.match(head):
        return "text/html"
    return _frame(head)


def find_type(
    data: bytes,
    *,
    own: str | None = None,
    explicit: str | None = None,
    header: str | None = None,
    name: str | None = None,
) -> str | None:
    """The media type in its plain form; None where nothing tells.

    The first of these that says anything: the source's ``own`` word (a ``data:`` URL's), what the step says, the
    bytes, the server's header, the name's extension. ZIP files and texts are made out better by those that follow.
    """
    said = normal_type(own) or normal_type(explicit)
    if said is not None:
        return said
    seen, heard, named = sniffed(data), normal_type(header), type_of_name(name)
    if seen == "application/zip":
        return next((each for each in (heard, named) if each in _ZIP_BASED), seen)
    if seen is not None:
        return seen
    if heard in ("text/plain", "application/xml") and named is not None and _TEXTUAL.fullmatch(named):
        return named
    if heard == "application/zip":
        heard = None  # the bytes would show it
    return heard or named


def _zip_type(data: bytes) -> str:
    """A ZIP file by what is in it: office documents and books are ZIP files too."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [each.filename for each in archive.infolist()[:_MOST_MEMBERS]]
            if "mimetype" in names and archive.getinfo("mimetype").file_size <= 100:
                written = normal_type(archive.read("mimetype").decode("ascii", "replace"))
                if written in _ZIP_BASED:
                    return written
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, EOFError):
        return "application/zip"
    found = (_BY_MEMBER[start] for start in _BY_MEMBER if any(name.startswith(start) for name in names))
    return next(found, "application/zip")


def _frame(head: bytes) -> str | None:
    """A bare frame of MPEG audio, layer III (ISO/IEC 11172-3), or of AAC in ADTS (ISO/IEC 13818-7)."""
    if len(head) < 4 or head[0] != 0xFF:
        return None
    if head[1] & 0xF6 == 0xF0:
        return "audio/aac"
    is_frame = head[1] & 0xE6 == 0xE2 and head[1] & 0x18 != 0x08
    has_rates = head[2] & 0xF0 not in (0x00, 0xF0) and head[2] & 0x0C != 0x0C
    return "audio/mpeg" if is_frame and has_rates else None
