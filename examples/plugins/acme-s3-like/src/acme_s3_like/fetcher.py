"""The fetcher of ``s3-like://bucket/key``."""

from __future__ import annotations

import os
import re
from typing import ClassVar

from treadle import AttachmentRequest, MediaPart, Sandbox, ToolError
from treadle_attachments.parts import media_part

__all__ = ["BucketFetcher"]

_SOURCE = re.compile(r"s3-like://(?P<bucket>[a-z0-9][a-z0-9.-]*)/(?P<key>.+)", re.IGNORECASE)


class BucketFetcher:
    """Reads objects of buckets. A bucket is a folder below ``S3_LIKE_ROOT``."""

    schemes: ClassVar[frozenset[str]] = frozenset({"s3-like"})

    async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
        """The object's bytes.

        :raises SandboxError: the sandbox does not let the bucket be read.
        :raises ToolError: permanent: there is no such object, it is too large, or not of the attachment's ``type``.
        """
        found = _SOURCE.fullmatch(request.source)
        if found is None or ".." in found["key"].split("/"):
            raise ToolError(f"'{request.source}' is not of the form s3-like://bucket/key", transient=False)
        path = "/".join((os.environ.get("S3_LIKE_ROOT", "buckets"), found["bucket"].lower(), found["key"]))
        try:
            data = await sandbox.read(path, max_bytes=request.max_bytes)
        except OSError as error:
            text = f"bucket '{found['bucket']}' has no object '{found['key']}'"
            raise ToolError(text, transient=False) from error
        return media_part(request, data, name=found["key"])
