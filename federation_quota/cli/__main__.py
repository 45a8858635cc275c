"""The command line of `kubectl-fedquota`, which kubectl finds as `kubectl fedquota`."""

import argparse
import sys
from collections.abc import Sequence

from federation_quota.cli import importing, pending, usage
from federation_quota.cli.manifests import ManifestError
from federation_quota.kube.error import KubeError


def flags() -> argparse.ArgumentParser:
    """Everything that can be asked."""
    parser = argparse.ArgumentParser("kubectl-fedquota", description="Quota of a whole Karmada federation.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    importing.add(commands)
    usage.add(commands)
    pending.add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script."""
    options = flags().parse_args(arguments)
    try:
        return int(options.run(options))
    except (KubeError, ManifestError) as problem:
        sys.stderr.write(f"error: {problem}\n")
        return 1
    except BrokenPipeError:  # whoever read has read enough
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())
