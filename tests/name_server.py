"""A name server that knows one name, as a container engine's knows the replicas of a service."""

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address

# Source: RFC 1035, 4.1 (messages) and 3.2.2 (types); RFC 3596, 2.1 (AAAA is another type, of which nothing is known)
_HEAD = struct.Struct(">6H")
_ANSWER_FLAGS, _TYPE_A, _CLASS_IN, _TO_THE_QUESTION = 0x8580, 1, 1, 0xC00C
_TTL_S = 1


def answer(asked: bytes, addresses: list[str]) -> bytes:
    """The answer to a question for any name: these addresses of version 4."""
    number = _HEAD.unpack_from(asked)[0]
    end = asked.index(0, _HEAD.size) + 5
    question = asked[_HEAD.size : end]
    (kind,) = struct.unpack_from(">H", asked, end - 4)
    found = [IPv4Address(address).packed for address in addresses] if kind == _TYPE_A else []
    head = _HEAD.pack(number, _ANSWER_FLAGS, 1, len(found), 0, 0)
    records = (struct.pack(">3HIH", _TO_THE_QUESTION, _TYPE_A, _CLASS_IN, _TTL_S, len(one)) + one for one in found)
    return head + question + b"".join(records)


@contextmanager
def naming(addresses: list[str]) -> Iterator[str]:
    """Answer on a free port until the end of the block with what the list holds at that moment; gives the address."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked, back = self.request
            back.sendto(answer(asked, addresses), self.client_address)

    with socketserver.UDPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
