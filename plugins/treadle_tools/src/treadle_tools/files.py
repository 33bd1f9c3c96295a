"""The tools ``file_read`` and ``file_write``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from treadle import Right, Sandbox, ToolContext, ToolError
from treadle.tools import parse_arguments, schema_of
from treadle_tools.arguments import CheckedTool, ToolArguments, refusals_of, text_of

__all__ = ["FileReadTool", "FileWriteTool"]


def _text_encoding(name: str) -> str:
    try:
        "a".encode(name)
    except LookupError as error:  # also for codecs that are no text encodings, such as hex
        raise ValueError(f"there is no text encoding '{name}'") from error
    except UnicodeError:
        pass  # an encoding without the letter a is one nevertheless
    return name


_Encoding = Annotated[str, AfterValidator(_text_encoding)]


class _ReadArguments(ToolArguments):
    path: str = Field(min_length=1, description="The file, relative to the directory you run from.")
    encoding: _Encoding = Field(default="utf-8", description="The file's encoding.")


class _WriteArguments(ToolArguments):
    path: str = Field(min_length=1, description="The file, relative to the directory you run from.")
    content: str = Field(description="The whole new content.")
    encoding: _Encoding = Field(default="utf-8", description="The encoding to write in.")


class FileReadTool(CheckedTool):
    """Gives a whole file as text, line ends as they are."""

    name = "file_read"
    description = "Read a text file and return all of it. A binary or missing file is an error."
    model = _ReadArguments
    parameters: ClassVar[Mapping[str, Any]] = schema_of(_ReadArguments)
    effect = "pure"

    def rights(self, arguments: Mapping[str, Any] | None) -> Iterable[Right]:
        """The file."""
        return (Right(kind="read", name=text_of(arguments, "path")),)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Read it.

        :raises ToolError: permanent where the arguments are wrong, the file is missing, may not be read or is no text.
        """
        given = parse_arguments(self.name, _ReadArguments, arguments)
        sandbox = context.require_sandbox(self.name)
        try:
            with refusals_of(self.name):
                data = await sandbox.read(given.path)
        except OSError as error:
            raise _file_error(self.name, "read", given.path, sandbox, error, write=False) from error
        try:
            return data.decode(given.encoding)
        except UnicodeError as error:
            raise ToolError(
                f"{self.name}: '{given.path}' is not {given.encoding} text: {_coding_fault(error)}", transient=False
            ) from error


class FileWriteTool(CheckedTool):
    """Makes or replaces a file and the directories above it; gives ``{written, path}``.

    ``written`` counts bytes in the encoding, ``path`` is absolute, with symbolic links followed.
    """

    name = "file_write"
    description = (
        "Write a text file, replacing one that is there and making missing directories. "
        "Returns {written, path}, written in bytes."
    )
    model = _WriteArguments
    parameters: ClassVar[Mapping[str, Any]] = schema_of(_WriteArguments)
    effect = "idempotent"

    def rights(self, arguments: Mapping[str, Any] | None) -> Iterable[Right]:
        """The file."""
        return (Right(kind="write", name=text_of(arguments, "path")),)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Write it.

        :raises ToolError: permanent where the arguments are wrong or the file may not be written.
        """
        given = parse_arguments(self.name, _WriteArguments, arguments)
        sandbox = context.require_sandbox(self.name)
        try:
            data = given.content.encode(given.encoding)
        except UnicodeError as error:
            raise ToolError(
                f"{self.name}: argument 'content' cannot be written in {given.encoding}: {_coding_fault(error)}",
                transient=False,
            ) from error
        try:
            with refusals_of(self.name):
                path = await sandbox.write(given.path, data)
        except OSError as error:
            raise _file_error(self.name, "written", given.path, sandbox, error, write=True) from error
        return {"written": len(data), "path": str(path)}


def _coding_fault(error: UnicodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"{error.reason} at byte {error.start}"
    if isinstance(error, UnicodeEncodeError):
        return f"{error.reason} at character {error.start}"
    return str(error)


_PERMANENT = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


def _file_error(tool_name: str, done: str, path: str, sandbox: Sandbox, error: OSError, *, write: bool) -> ToolError:
    """What the operating system refused, said with the path as given and what it stands for."""
    place = sandbox.check_path(path, write=write)
    if isinstance(error, FileNotFoundError) and not write:
        text = f"{tool_name}: there is no file '{path}' (looked for '{place.name}' in {place.parent})"
    else:
        cause = error.strerror or str(error)
        text = f"{tool_name}: '{path}' (it stands for {place}) cannot be {done}: {cause}"
    return ToolError(text, transient=not isinstance(error, _PERMANENT))
