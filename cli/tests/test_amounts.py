"""Times, tokens and money as text."""

from __future__ import annotations

import pytest

from treadle_cli import amounts


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"), (0.012, "12 ms"), (0.0996, "0.1 s"), (4.24, "4.2 s"), (59.9, "59.9 s"), (59.96, "1 m 00 s"),
        (185, "3 m 05 s"), (3599.7, "1 h 00 m"), (7620, "2 h 07 m"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert amounts.duration(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (None, "cost unknown"), (0, "$0"), (0.0, "$0"), (0.00123, "$0.00123"), (0.0012, "$0.0012"), (0.5, "$0.500"),
        (12.345, "$12.35"), (1234.5, "$1,234.50"), (0.0000021, "$0.0000021"), (1e-9, "under $0.0000001"),
    ],
)  # fmt: skip
def test_an_unknown_cost_is_never_zero_and_a_small_one_is_never_nothing(usd: float | None, text: str) -> None:
    assert amounts.cost(usd) == text


@pytest.mark.parametrize(
    ("count", "text"), [(None, "tokens unknown"), (0, "0 tokens"), (1, "1 token"), (1234, "1,234 tokens")]
)
def test_token_counts(count: int | None, text: str) -> None:
    assert amounts.tokens(count) == text
