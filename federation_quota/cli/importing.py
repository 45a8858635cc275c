"""`kubectl fedquota import`: quotas of others as ours, on standard output, and what could not be carried over.

Nothing is applied and no API server is asked: people look at it first.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from federation_quota.cli import manifests, queues
from federation_quota.elastic import koordinator, nos
from federation_quota.elastic.imported import Imported

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_Convert = Callable[[Iterable[manifests.Manifest]], Imported]


def _of_manifests(convert: _Convert) -> Callable[[list[str]], Imported]:
    return lambda paths: convert(manifests.read(paths))


SOURCES: Final[dict[str, Callable[[list[str]], Imported]]] = {
    "koordinator": _of_manifests(koordinator.convert),
    "nos": _of_manifests(nos.convert),
    "yunikorn": queues.convert,
}

_DESCRIPTION: Final = (
    "Turns ElasticQuota manifests of Koordinator or nos, or YuniKorn's queue configuration, into ours. They are "
    "written to standard output in the order in which they can be applied; what is not as it was goes to standard "
    "error. A configuration that YuniKorn would refuse is refused, in its words."
)


def add(commands: "Commands") -> None:
    """The command, to a parser."""
    parser = commands.add_parser("import", help="turn the quotas of others into ours", description=_DESCRIPTION)
    parser.add_argument("source", choices=sorted(SOURCES), help="whose quotas they are")
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        metavar="FILE",
        help="a file with manifests, or queues.yaml, - for standard input; may be given several times",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Convert, and say what became of it."""
    imported = SOURCES[options.source](options.filename)
    found = [*imported.objects, *imported.others]
    if found:
        sys.stdout.write(manifests.dump(found))
        sys.stdout.flush()  # what is said of it comes below it, wherever both go
    for note in imported.notes:
        sys.stderr.write(f"note: {note}\n")
    if not imported.objects:
        sys.stderr.write(f"error: there is no quota of {options.source} in {', '.join(options.filename)}\n")
        return 1
    return 0
