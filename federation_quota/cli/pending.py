"""`kubectl fedquota pending`: what waits, for which validator or quota, since when, and why.

Read with the rights of whoever asks: in a namespace of theirs, tenants see their own.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from federation_quota import pending, waiting
from federation_quota.kube import codec, config, error
from federation_quota.kube.client import Client
from federation_quota.kube.quotas import KARMADA_QUOTAS, RESOURCE_BINDINGS, USAGE_ACCOUNTS
from federation_quota.kube.resource import Resource
from federation_quota.limits.subject import Subject
from federation_quota.stamp import HELD_LABEL, PENDING_ANNOTATION, TRUE

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_DESCRIPTION: Final = (
    "Lists what was not admitted yet: what a validator refused for now, what is held until a quota has room, and what "
    "a quota, or the limit of a user or group, refused and is tried again when it has."
)
_HEADINGS: Final = ("NAMESPACE", "BINDING", "WAITS FOR", "SINCE", "WHY")


class Row(NamedTuple):
    """One that waits."""

    namespace: str
    binding: str
    waits_for: str
    since: str
    why: str


def add(commands: "Commands") -> None:
    """The command, to a parser."""
    parser = commands.add_parser("pending", help="list what waits to be admitted", description=_DESCRIPTION)
    parser.add_argument("-n", "--namespace", default="default", help="of this namespace; default: %(default)s")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    parser.add_argument("--kubeconfig", help="of the federation API server; default: as kubectl finds it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read, and print a table."""
    place = None if options.all_namespaces else options.namespace
    found = asyncio.run(_read(options.kubeconfig, place))
    if not found:
        sys.stderr.write(f"Nothing waits{'' if place is None else f' in namespace {place}'}.\n")
        return 0
    sys.stdout.write(table(found))
    return 0


async def _read(kubeconfig: str | None, namespace: str | None) -> list[Row]:
    async with Client(await config.load(kubeconfig=kubeconfig)) as client:
        bindings = [one async for one in _listed(client, RESOURCE_BINDINGS, namespace)]
        quotas = [one async for one in _listed(client, KARMADA_QUOTAS, namespace)]
        accounts: list[Mapping[str, Any]] = []
        with contextlib.suppress(error.ForbiddenError):  # of other tenants, too: not everybody sees them
            accounts = [one async for one in _listed(client, USAGE_ACCOUNTS, None)]
    return [one for one in rows(bindings, quotas, accounts) if namespace in (None, one.namespace)]


async def _listed(client: Client, resource: Resource, namespace: str | None) -> Any:  # noqa: ANN401
    pages = client.list(resource, namespace, only_metadata=resource is RESOURCE_BINDINGS)
    async with contextlib.aclosing(pages):
        async for page in pages:
            for item in page.items:
                yield codec.decode_object(item)


def rows(
    bindings: Iterable[Mapping[str, Any]],
    quotas: Iterable[Mapping[str, Any]],
    accounts: Iterable[Mapping[str, Any]] = (),
) -> list[Row]:
    """Who waits, by namespace and for how long; each binding once, with what a validator says before all else."""
    found: dict[tuple[str, str], Row] = {}
    for row in (*_listed_waiters(quotas), *_limited_waiters(accounts), *_held(bindings)):
        known = found.get(row[:2])
        if known is None or row.waits_for != "a quota":
            found[row[:2]] = row
    return sorted(found.values(), key=lambda one: (one.namespace, one.since, one.binding))


def _held(bindings: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for one in bindings:
        metadata = one["metadata"]
        note = pending.decode((metadata.get("annotations") or {}).get(PENDING_ANNOTATION))
        place = metadata["namespace"], metadata["name"]
        if note is not None:
            yield Row(*place, f"validator {note.validator}", note.since, note.message)
        elif (metadata.get("labels") or {}).get(HELD_LABEL) == TRUE:
            yield Row(*place, "a quota", metadata.get("creationTimestamp", ""), "held until it fits")


def _listed_waiters(quotas: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for quota in quotas:
        metadata = quota["metadata"]
        for waiter in waiting.read(quota.get("status") or {}):
            yield Row(
                metadata["namespace"], waiter.binding, f"quota {metadata['name']}", _since(waiter), waiter.message
            )


def _limited_waiters(accounts: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Those who wait for the limit of a user or group."""
    for account in accounts:
        spec = account["spec"]
        limit = f"limit of {Subject(spec['tree'], spec['kind'], spec['name'])}"
        for waiter in waiting.read(account.get("status") or {}):
            namespace, _, name = waiter.binding.partition("/")
            yield Row(namespace, name, limit, _since(waiter), waiter.message)


def _since(waiter: waiting.Waiter) -> str:
    return waiter.since.partition(".")[0].rstrip("Z") + "Z"


def table(found: Iterable[Row]) -> str:
    """Columns, as kubectl prints them."""
    lines = [_HEADINGS, *found]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS) - 1)]
    return "".join(
        "   ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[-1]]) + "\n"
        for line in lines
    )
