"""Recorded or written replies in place of a model: the provider ``mock``, and recordings.

.. code-block:: python

    async with treadle.open(journal=RecordingJournal("recording.json")) as session:
        await session.run("flow.yaml")

The names are loaded when they are touched: every command of Treadle imports this package for its plugin's sake.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle_replay.errors import RecordingError, RecordingMismatchError
    from treadle_replay.provider import MockProvider
    from treadle_replay.recorder import FileRecorder, RecordingJournal

__all__ = ["FileRecorder", "MockProvider", "RecordingError", "RecordingJournal", "RecordingMismatchError"]

_HOME_OF = {
    "FileRecorder": "recorder",
    "MockProvider": "provider",
    "RecordingError": "errors",
    "RecordingJournal": "recorder",
    "RecordingMismatchError": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treadle_replay' has no attribute '{name}'")
    return getattr(import_module(f"treadle_replay.{_HOME_OF[name]}"), name)
