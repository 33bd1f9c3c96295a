"""The tool ``acme_weather``."""

from __future__ import annotations

import json
from typing import Annotated

from treadle import ToolContext, ToolError, tool

__all__ = ["acme_weather"]


@tool(name="acme_weather", effect="pure")
async def acme_weather(
    city: Annotated[str, "the city"],
    context: ToolContext,
    almanac: Annotated[str, "the file of temperatures by city"] = "almanac.json",
) -> dict[str, str | float]:
    """Say how warm it will be in a city tomorrow, in degrees Celsius."""
    sandbox = context.require_sandbox("acme_weather")
    try:
        temperatures = json.loads(await sandbox.read(almanac, max_bytes=1_000_000))
        return {"city": city, "celsius": float(temperatures[city])}
    except OSError as error:
        cause = error.strerror or str(error)
        raise ToolError(f"acme_weather: the almanac '{almanac}' cannot be read: {cause}", transient=False) from error
    except KeyError:
        known = ", ".join(sorted(temperatures))
        raise ToolError(f"acme_weather: no city '{city}' in the almanac; there are {known}", transient=False) from None
    except (ValueError, TypeError) as error:
        raise ToolError(f"acme_weather: the almanac '{almanac}' is not one: {error}", transient=False) from error
