"""Documents besides the workflow: files that a step names and that have a shape of their own, such as agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from treadle._dataclasses import dataclass
from treadle.errors import Severity

if TYPE_CHECKING:
    from pydantic import BaseModel

    from treadle import Workflow
    from treadle.contracts.config import RunConfig
    from treadle.contracts.step import Reference
    from treadle.contracts.tool import Right, Tool

__all__ = ["CheckedChild", "ChildForm", "DocumentCheck", "LoadedDocument"]

ModelT = TypeVar("ModelT", bound="BaseModel")
DocumentT_co = TypeVar("DocumentT_co", bound="BaseModel", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedDocument(Generic[DocumentT_co]):
    """A file read as a model. ``file`` is its name as it was given."""

    value: DocumentT_co
    file: str


ChildForm = Literal["path", "workflow", "steps", "step"]
"""How a workflow that a step runs is written: the path of its file, a whole workflow, its steps alone, or one step."""


@dataclass(frozen=True, slots=True, eq=False)
class CheckedChild:
    """A workflow that a step will run, and in which nothing is wrong.

    :param keys: the top-level keys that its state may have at its end; of one that starts over its parent's state
        without those of the parent.
    :param outer_keys: those that the state of the workflow around it may have.
    """

    workflow: Workflow
    keys: frozenset[str]
    outer_keys: frozenset[str]


class DocumentCheck(ABC):
    """What a step may look up, and say, when the document that it stands in is checked.

    ``field`` is dotted and within the step, or within ``of``: a document that was loaded here.
    """

    config: RunConfig | None = None
    """The workflow's config with all that it takes from elsewhere, None where it is wrong."""

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

    def workflow(
        self,
        written: Any,
        *,
        field: str,
        form: ChildForm,
        keys: Iterable[str] = (),
        scoped: Iterable[str] = (),
        isolated: bool = False,
        repeats: bool = False,
        then: Callable[[CheckedChild], None] | None = None,
    ) -> None:
        """Have a workflow checked that the step will run; it then takes it from :meth:`StepContext.workflow`.

        What is wrong in a file is noted in that file, and what is wrong in anything else where it stands. A path is
        looked for in the working directory and then beside the file that names it. Files that run each other in a
        circle are refused. The child's config takes the provider, the model and how they are used from the parent's,
        where its own does not say.

        It is checked after this method has returned: any number of files may be below each other.

        :param keys: keys of the state that the step gives it.
        :param scoped: further ones, which are known to it by these names and mean nothing outside of it.
        :param isolated: whether it does not start over the state that the step sees.
        :param repeats: whether it is run again over what it wrote itself.
        :param then: called once it has been checked, where nothing is wrong with it.
        """
        return

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
