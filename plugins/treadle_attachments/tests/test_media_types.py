"""What an attachment is: the step's word, then the bytes, the header, the extension."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_attachments.media_types import find_type, kind_of, normal_type, sniffed, type_of_name

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 16
PDF = b"%PDF-1.7\n"
WAV = b"RIFF\x24\0\0\0WAVEfmt "
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def zipped(**members: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/"), text)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"II*\0....", "image/tiff"),
        (b"\0\0\0\x18ftypheic....", "image/heic"),
        (b"\0\0\0\x18ftypavif....", "image/avif"),
        (b"\0\0\0\x18ftypM4A ....", "audio/mp4"),
        (b"\0\0\0\x18ftypisom....", "video/mp4"),
        (b"BM" + (26).to_bytes(4, "little") + b"\0" * 20, "image/bmp"),
        (PDF, "application/pdf"),
        (WAV, "audio/wav"),
        (b"ID3\x04\0\0\0\0", "audio/mpeg"),
        (b"\xff\xfb\x90\x64\0\0", "audio/mpeg"),
        (b"\xff\xf1\x50\x80\0\0", "audio/aac"),
        (b"fLaC\0\0\0", "audio/flac"),
        (b"OggS\0\0\0", "audio/ogg"),
        (b"FORM\0\0\0\0AIFF", "audio/aiff"),
        (b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', "image/svg+xml"),
        (b"\xef\xbb\xbf<!-- a --> <svg>", "image/svg+xml"),
        (b"\n<!DOCTYPE html><html>", "text/html"),
        (b"<HTML><body>", "text/html"),
        (b"PK\x03\x04 cut off", "application/zip"),
        (b"plain words", None),
        (b"\xff\xfeU\0T\0F\0", None),
        (b"", None),
    ],
)
def test_the_first_bytes_tell(data: bytes, media_type: str | None) -> None:
    assert sniffed(data) == media_type


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (zipped(**{"[Content_Types].xml": "", "word__document.xml": ""}), DOCX),
        (zipped(**{"[Content_Types].xml": "", "xl__workbook.xml": ""}), XLSX),
        (zipped(mimetype="application/epub+zip", a="b"), "application/epub+zip"),
        (zipped(mimetype="application/vnd.oasis.opendocument.text"), "application/vnd.oasis.opendocument.text"),
        (zipped(mimetype="image/png"), "application/zip"),
        (zipped(a="b"), "application/zip"),
    ],
)
def test_a_zip_file_is_told_by_what_is_in_it(data: bytes, media_type: str) -> None:
    assert sniffed(data) == media_type


@pytest.mark.parametrize(
    ("told", "media_type"),
    [
        ({"explicit": "image/gif", "header": "image/webp", "name": "a.bmp"}, "image/gif"),
        ({"own": "image/webp", "explicit": "image/gif"}, "image/webp"),
        ({"own": "application/octet-stream", "explicit": "image/gif"}, "image/gif"),
        ({"header": "application/pdf", "name": "a.jpg"}, "image/png"),
    ],
)
def test_what_is_said_wins_over_the_bytes_and_they_over_the_rest(told: dict[str, str], media_type: str) -> None:
    assert find_type(PNG, **told) == media_type


@pytest.mark.parametrize(
    ("told", "media_type"),
    [
        ({"header": "image/webp", "name": "a.bmp"}, "image/webp"),
        ({"header": "", "name": "a.bmp"}, "image/bmp"),
        ({"header": "application/octet-stream", "name": "a.BMP"}, "image/bmp"),
        ({"header": "Application/PDF; charset=binary"}, "application/pdf"),
        ({"header": "text/plain; charset=utf-8", "name": "a.csv"}, "text/csv"),
        ({"header": "text/plain", "name": "a.svg"}, "image/svg+xml"),
        ({"header": "text/plain", "name": "a.png"}, "text/plain"),
        ({"header": "application/zip", "name": "a.png"}, "image/png"),
        ({"name": "https://x/y.png/z"}, None),
        ({}, None),
    ],
)
def test_where_the_bytes_say_nothing_the_header_tells_and_then_the_extension(
    told: dict[str, str], media_type: str | None
) -> None:
    assert find_type(b"words", **told) == media_type


def test_a_zip_file_that_cannot_be_looked_into_is_told_by_header_or_extension() -> None:
    cut = b"PK\x03\x04 cut off"
    assert find_type(cut, header="application/zip", name="a.docx") == DOCX
    assert find_type(cut, header=XLSX, name="a.docx") == XLSX
    assert find_type(cut, header="image/png", name="a.png") == "application/zip"


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("audio/x-wav", "audio/wav"),
        ("AUDIO/WAVE ; rate=8000", "audio/wav"),
        ("audio/mp3", "audio/mpeg"),
        ("image/jpg", "image/jpeg"),
        ("image/x-png", "image/png"),
        ("application/x-pdf", "application/pdf"),
        ("image/png", "image/png"),
        ("binary/octet-stream", None),
        ("png", None),
        ("image/", None),
        ("", None),
        (None, None),
    ],
)
def test_a_media_type_has_one_plain_form(given: str | None, normal: str | None) -> None:
    assert normal_type(given) == normal


def test_extensions_are_read_from_paths_and_addresses_of_any_kind() -> None:
    assert type_of_name("C:\\scans\\a.PDF") == "application/pdf"
    assert type_of_name("/a.b/c") is None
    assert type_of_name(None) is None


@given(st.text())
def test_the_plain_form_is_its_own_plain_form(text: str) -> None:
    normal = normal_type(text)
    assert normal is None or normal_type(normal) == normal


@given(st.sampled_from(["image/png", "audio/x-wav", "application/pdf"]), st.text(), st.sampled_from(" \t;"))
def test_parameters_and_case_say_nothing(media_type: str, parameters: str, space: str) -> None:
    assert normal_type(f"{space.strip(';')}{media_type.upper()}{space.strip(';')};{parameters}") == normal_type(
        media_type
    )


@given(
    st.one_of(st.binary(max_size=200), st.binary(max_size=60).map(lambda tail: b"PK\x03\x04" + tail)),
    st.text(max_size=30),
    st.text(max_size=30),
    st.text(max_size=30),
)
def test_whatever_comes_the_type_is_a_plain_one_or_unknown(data: bytes, explicit: str, header: str, name: str) -> None:
    found = find_type(data, explicit=explicit, header=header, name=name)
    assert found is None or normal_type(found) == found
    assert found is None or kind_of(found) in ("image", "pdf", "audio", None)


@given(st.binary(max_size=100), st.sampled_from([PNG, JPEG, PDF, WAV]))
def test_what_follows_the_magic_bytes_changes_nothing(tail: bytes, head: bytes) -> None:
    assert sniffed(head + tail) == sniffed(head)
