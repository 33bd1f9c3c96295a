"""Which ``treadle.yaml`` counts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from treadle.errors import ConfigurationError

__all__ = ["SETTINGS_FILE", "SETTINGS_VARIABLE", "find_settings"]

SETTINGS_FILE = "treadle.yaml"
SETTINGS_VARIABLE = "TREADLE_CONFIG"


def find_settings(environment: Mapping[str, str] = os.environ) -> str | None:
    """The settings file of this deployment, None where there is none.

    It is the one that ``TREADLE_CONFIG`` names, which counts as none where it is empty; else the ``treadle.yaml`` of
    the working directory or of the nearest directory above it that has one.

    :raises ConfigurationError: the one found upward belongs to somebody else. It could send keys elsewhere.
    """
    named = environment.get(SETTINGS_VARIABLE)
    if named is not None:
        return named.strip() or None
    try:
        here = Path.cwd()
    except OSError:  # the working directory is gone: nothing is above it
        return None
    for folder in (here, *here.parents):
        file = folder / SETTINGS_FILE
        try:
            if not file.is_file():
                continue
            owners = {file.lstat().st_uid, file.stat().st_uid}
            trusted = {0, folder.stat().st_uid}
        except OSError:  # a directory that may not be looked into has no settings for us
            continue
        if hasattr(os, "getuid") and not owners <= trusted | {os.getuid()}:
            raise ConfigurationError(
                f"{file} belongs to another user than you and its directory",
                hint="--config FILE reads it all the same, --no-config goes on without",
            )
        return SETTINGS_FILE if folder == here else str(file)
    return None
