"""The engine: graph, scheduler, attempts, state, model gateway, events."""

from treadle._engine.run import Run
from treadle._engine.session import Session, open_session

__all__ = ["Run", "Session", "open_session"]
