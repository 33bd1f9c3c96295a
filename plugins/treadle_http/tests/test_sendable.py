"""Addresses, headers and keys that can be sent, and those that cannot."""

from __future__ import annotations

import pytest

from treadle.contracts.secrets import SecretRef
from treadle.errors import CredentialError
from treadle_http.sendable import http_url, sendable_headers, sendable_key


def test_an_address_loses_white_space_and_slashes() -> None:
    assert http_url(" https://example.com/v1// ") == "https://example.com/v1"


@pytest.mark.parametrize("given", ["localhost:8000", "ftp://example.com", "https://", ""])
def test_what_is_no_http_address_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="a base URL begins with http:// or https:// and a host"):
        http_url(given)


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"X-A": "secret\ntwo"}, "the value of header 'X-A' holds characters that a header cannot carry"),
        ({"X A": "secret"}, "'X A' is not the name of an HTTP header"),
        ({"X-A": "sécret"}, "the value of header 'X-A' holds characters that a header cannot carry"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_unseen(headers: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        sendable_headers(headers)
    assert "cret" not in str(caught.value)


def test_a_key_that_no_header_can_carry_is_refused_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "one two")
    with pytest.raises(CredentialError) as caught:
        sendable_key(SecretRef("env:A_KEY"))
    assert str(caught.value) == "the key in env:A_KEY holds white space or characters that no key has"
    monkeypatch.setenv("A_KEY", " one ")
    assert sendable_key(SecretRef("env:A_KEY")) == "one"
