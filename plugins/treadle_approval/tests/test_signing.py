"""A webhook is known by its signature."""

from __future__ import annotations

import pytest

from treadle_approval import signature, verify

BODY = b'{"run_id": "r"}'


def test_the_signature_is_the_hmac_of_time_and_body() -> None:
    """Computed with ``printf '1700000000.{"run_id": "r"}' | openssl dgst -sha256 -hmac key``."""
    assert (
        signature("key", "1700000000", BODY)
        == "sha256=f977a5ab78d9f27dc3af65f4d669696c2063c5ca0666e5e514830971138a0d9b"
    )


@pytest.mark.parametrize(
    ("change", "now", "holds"),
    [
        ({}, 1700000000.0, True),
        ({}, 1700000299.0, True),
        ({}, 1700000301.0, False),
        ({}, 1699999699.0, False),
        ({"body": b"{}"}, 1700000000.0, False),
        ({"timestamp": "1700000001"}, 1700000000.0, False),
        ({"signed": "sha256=00"}, 1700000000.0, False),
        ({"signed": "é"}, 1700000000.0, False),
        ({"timestamp": "soon"}, 1700000000.0, False),
    ],
)
def test_it_holds_for_what_was_signed_not_long_ago(change: dict[str, object], now: float, holds: bool) -> None:
    given = {"timestamp": "1700000000", "signed": signature("key", "1700000000", BODY), "body": BODY, **change}
    assert verify("key", now=now, **given) is holds  # type: ignore[arg-type]


def test_a_signed_time_that_is_no_number_is_refused() -> None:
    assert not verify("key", timestamp="soon", signed=signature("key", "soon", BODY), body=BODY)
