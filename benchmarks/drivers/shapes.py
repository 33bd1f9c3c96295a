"""The graphs that are measured: for each step, the steps it waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Graph = Mapping[str, Sequence[str]]

LIMIT = 10
"""Steps at work at once: what `max_concurrent_steps` is where a workflow says nothing."""


def chain(count: int) -> Graph:
    """Each step waits for the one before."""
    return {f"s{i}": [f"s{i - 1}"] if i else [] for i in range(count)}


def fan_out(count: int) -> Graph:
    """Every step waits for the first."""
    return {f"s{i}": ["s0"] if i else [] for i in range(count)}


SHAPES: Mapping[str, Callable[[int], Graph]] = {"chain": chain, "fan-out": fan_out}
