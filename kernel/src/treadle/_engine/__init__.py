"""The engine: graph, scheduler, attempts, state, model gateway, events."""

from treadle._engine.run import Run
from treadle._engine.session import Session, open_session
from treadle._engine.streaming import RunStream

__all__ = ["Run", "RunStream", "Session", "open_session"]
