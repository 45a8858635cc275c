"""`kubectl fedquota usage`: what users and groups use of a tree, read from the federation API server as one may.

It needs the rights to list bindings, elastic quotas and trees in the whole federation, which are an administrator's.
The JSON is that of the controllers' `/ws/v1/partition/{tree}/usage`.
"""

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING, Final

from federation_quota.cli.usage_table import table
from federation_quota.elastic.quota import QuotaError
from federation_quota.elastic.tree import DEFAULT
from federation_quota.kube import config, usage
from federation_quota.kube.client import Client
from federation_quota.kube.codec import CodecError
from federation_quota.kube.error import KubeError
from federation_quota.limits.report import GroupUsage, UserUsage

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_KINDS: Final = ("groups", "users")
_DESCRIPTION: Final = (
    "Shows what users or groups use of a tree, on each of its quotas, beside their limits. Workloads that wait, and "
    "those without an owner, are not in it."
)


class UsageError(Exception):
    """It cannot be told, and why."""


def add(commands: "Commands") -> None:
    """The command, to a parser."""
    parser = commands.add_parser("usage", help="what users and groups use", description=_DESCRIPTION)
    parser.add_argument("kind", choices=_KINDS, help="of whom")
    parser.add_argument("name", nargs="?", help="one of them alone; '*' among groups: those that no limit names")
    parser.add_argument("--tree", default=DEFAULT, help="the QuotaTree (default: %(default)s)")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table", help="how to show it")
    parser.add_argument("--kubeconfig", help="as kubectl's")
    parser.add_argument("--context", help="as kubectl's")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read, and show."""
    try:
        found = asyncio.run(_read(options))
    except (UsageError, KubeError, QuotaError, CodecError) as problem:
        sys.stderr.write(f"error: {problem}\n")
        return 1
    if options.output == "json":
        documents = [one.document() for one in found]
        sys.stdout.write(json.dumps(documents[0] if options.name else documents, indent=2) + "\n")
    else:
        sys.stdout.write(table(found, options.kind.removesuffix("s").upper()))
        if not found:
            sys.stderr.write(f"No {options.kind} use anything of tree {options.tree}, and no limit names any.\n")
    return 0


async def _read(options: argparse.Namespace) -> list[UserUsage | GroupUsage]:
    async with Client(await config.load(kubeconfig=options.kubeconfig, context=options.context)) as client:
        forest = await usage.read_forest(client)
        if forest.root(options.tree) is None:
            raise UsageError(f"there is no tree {options.tree}: `kubectl get quotatrees` lists them")
        bindings = await usage.read_bindings(client)
    found: list[UserUsage | GroupUsage] = []
    found += (usage.users if options.kind == "users" else usage.groups)(forest, options.tree, bindings)
    if not options.name:
        return found
    chosen = [one for one in found if one.name == options.name]
    if not chosen:
        one = options.kind.removesuffix("s")
        raise UsageError(f"{one} {options.name} uses nothing of tree {options.tree}, and no limit names it")
    return chosen
