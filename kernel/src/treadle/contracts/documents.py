"""Documents besides the workflow: files that a step names and that have a shape of their own, such as agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from treadle._dataclasses import dataclass
from treadle.errors import Severity

if TYPE_CHECKING:
    from pydantic import BaseModel

    from treadle.contracts.step import Reference
    from treadle.contracts.tool import Right, Tool

__all__ = ["DocumentCheck", "LoadedDocument"]

ModelT = TypeVar("ModelT", bound="BaseModel")
DocumentT_co = TypeVar("DocumentT_co", bound="BaseModel", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedDocument(Generic[DocumentT_co]):
    """A file read as a model. ``file`` is its name as it was given."""

    value: DocumentT_co
    file: str


class DocumentCheck(ABC):
    """What a step may look up, and say, when the document that it stands in is checked.

    ``field`` is dotted and within the step, or within ``of``: a document that was loaded here.
    """

    @abstractmethod
    def load(
        self, path: str, model: type[ModelT], *, field: str, of: LoadedDocument[BaseModel] | None = None
    ) -> LoadedDocument[ModelT] | None:
        """Read a file as a model, once however often it is named. What is wrong with it is noted where it stands.

        Gives None where it cannot be used. The path is relative to the working directory.
        """

    @abstractmethod
    def refer(self, reference: Reference, *, of: LoadedDocument[BaseModel] | None = None) -> None:
        """Look up what is referred to, as if the step itself did; its ``field`` is in ``of``."""

    def tool(self, name: str) -> Tool | None:
        """A registered tool, None where it cannot be had; :meth:`refer` says why."""
        return None

    def ask(self, right: Right) -> None:
        """Tell those who want to know it that the step will ask for something. Nothing is looked up or granted."""
        return

    @abstractmethod
    def note(
        self,
        message: str,
        *,
        field: str,
        of: LoadedDocument[BaseModel] | None = None,
        code: str = "bad-value",
        hint: str | None = None,
        severity: Severity = "error",
    ) -> None:
        """Note a problem where the field stands."""
