"""Where agentloop has its metrics. Here they come from a package of their own."""

from __future__ import annotations

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(f"{name} needs the package treadle-otel; pip install treadle-otel")
