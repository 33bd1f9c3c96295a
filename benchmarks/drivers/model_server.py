"""A server that speaks as much of Chat Completions as the benchmarks need.

Prints its port and serves until it is killed.

What it does is chosen by the first part of the path:

    /wait-MS/v1/chat/completions       one reply, after MS milliseconds
    /chunks-N/v1/chat/completions      N pieces of text, each its own HTTP chunk, as fast as they are taken
    /stamps-N/v1/chat/completions      N pieces of text, 5 ms apart, each saying when it was sent (time.monotonic)
"""

from __future__ import annotations

import asyncio
import json
import re
import time

LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
WORK = re.compile(rb"POST /(wait|chunks|stamps)-(\d+)/")
TEXT = "word "
PIECES_AT_ONCE = 64


def plain() -> bytes:
    message = {"role": "assistant", "content": "done"}
    body = json.dumps(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o-mini",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    ).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def piece(text: str | None, finish: str | None = None) -> bytes:
    delta = {} if text is None else {"content": text}
    data = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
    }
    event = b"data: " + json.dumps(data).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


DONE = b"data: [DONE]\n\n"
END = piece(None, "stop") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(DONE), DONE)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    reply = plain()
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(LENGTH.search(head)[1]))  # type: ignore[index]
            work, number = WORK.match(head).groups()  # type: ignore[union-attr]
            count = int(number)
            if work == b"wait":
                await asyncio.sleep(count / 1000)
                writer.write(reply)
            elif work == b"chunks":
                await stream(writer, count)
            else:
                await stamps(writer, count)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def stream(writer: asyncio.StreamWriter, count: int) -> None:
    writer.write(STREAM)
    many = piece(TEXT) * PIECES_AT_ONCE
    for start in range(0, count, PIECES_AT_ONCE):
        left = min(PIECES_AT_ONCE, count - start)
        writer.write(many if left == PIECES_AT_ONCE else piece(TEXT) * left)
        await writer.drain()
    writer.write(END)


async def stamps(writer: asyncio.StreamWriter, count: int) -> None:
    writer.write(STREAM)
    for _ in range(count):
        await asyncio.sleep(0.005)
        writer.write(piece(f"{time.monotonic()} "))
        await writer.drain()
    writer.write(END)


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
