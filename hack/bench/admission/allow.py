"""A webhook that decides nothing: the product's own server, with hooks that let everything through.

`python -m bench.admission.allow PORT CERTIFICATE KEY` serves until it is ended. What a decision costs is what the
product takes beyond this.
"""

import asyncio
import signal
import ssl
import sys

from federation_quota import hooks
from federation_quota.health import Health
from federation_quota.kube import codec
from federation_quota.monitoring import Address
from webhook.review import ALLOWED, Verdict
from webhook.server import Server


async def allow(_request: codec.AdmissionRequest, _deadline: float) -> Verdict:
    """Whatever it is."""
    return ALLOWED


async def serve(port: int, certificate: str, key: str) -> None:
    """Answer on loopback until asked to end."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    paths = (hooks.VALIDATE_BINDINGS, hooks.STAMP_BINDINGS)
    server = Server(dict.fromkeys(paths, allow), health=Health(ready={}, live={}))
    await server.start(Address("127.0.0.1", port), context, shares_port=True)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await stopping.wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), *sys.argv[2:4]))
