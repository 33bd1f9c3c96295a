"""It was written for a Treadle that there never was: nothing is called ``Offering`` there."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import Offering, hookimpl


@hookimpl
def treadle_step_types() -> Mapping[str, Offering]:
    """The step type ``acme_broken``."""
    return {"acme_broken": Offering("acme_broken.step:AcmeBroken", "Do nothing")}
