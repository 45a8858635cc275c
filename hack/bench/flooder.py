"""A tenant who floods: `python -m bench.flooder KUBECONFIG NAMESPACE KIND CLIENTS SECONDS TURN`, a process of its own.

The one whose latencies are measured must not wait for this one's Python. It says when it begins, and then how its
requests ended, as JSON.
"""

import asyncio
import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bench.admission import load
from bench.admission.load import BINDINGS, Clients, Request
from federation_quota.kube import config

FITTING: Final = "creations that fit"
DENIED: Final = "creations that do not fit"
HOSTILE: Final = "huge and malformed ones"
KINDS: Final = (FITTING, DENIED, HOSTILE)

_HEADERS: Final = {"Content-Type": "application/json"}
_PADDING: Final = "x" * 100_000


def hostile(namespace: str, prefix: str) -> Iterator[Request]:
    """What cannot be accounted for, in turn: a quantity that is none, far too many resources, and sheer size."""
    for number in itertools.count():
        document = load.binding(f"{prefix}-{number}", namespace)
        spec: dict[str, Any] = document["spec"]
        match number % 4:
            case 0:
                spec["replicaRequirements"]["resourceRequest"] = {"cpu": "1e999999"}
            case 1:
                spec["replicaRequirements"]["resourceRequest"] |= {f"example.com/r{n}": "1" for n in range(300)}
            case 2:
                document["metadata"]["annotations"] = {"example.com/padding": _PADDING}
            case _:
                spec["clusters"] = [{"name": f"m{n}", "replicas": 1} for n in range(500)]
        yield Request("POST", BINDINGS.format(namespace=namespace), msgspec.json.encode(document), _HEADERS)


async def flood(
    kubeconfig: str, namespace: str, kind: str, count: int, seconds: float, turn: str, per_second: float
) -> None:
    """As many clients as that, each as fast as it is answered, but no more than `per_second` together."""
    creations = hostile if kind == HOSTILE else load.creations
    plans = [creations(namespace, f"f{turn}-{number}") for number in range(count)]
    connection = await config.load(kubeconfig=kubeconfig)
    async with Clients(connection, count) as clients:
        print("flooding", flush=True)
        told = await clients.turn(plans, seconds, per_second=per_second)
    print(json.dumps({"stored": len(told.latencies), "seconds": told.seconds, **told.others}))


if __name__ == "__main__":
    _, kubeconfig, namespace, kind, count, seconds, turn, pace = sys.argv
    asyncio.run(flood(kubeconfig, namespace, kind, int(count), float(seconds), turn, float(pace)))
