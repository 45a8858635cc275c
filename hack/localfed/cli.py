"""The command line of `hack/federation`: words in, one clear line out when something is wrong."""

import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path

import click

from localfed import programs
from localfed.console import say
from localfed.directory import Shape
from localfed.errors import FederationError, InterruptedByUserError
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.interruption import interruptible

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = os.environ.get("FEDERATION_DIR") or str(ROOT / ".federation")

in_directory = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=DEFAULT,
    show_default=".federation beside hack/, or $FEDERATION_DIR",
    help="The folder that the federation lives in.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """A real Karmada federation on this machine: etcd, API servers, Karmada and members, as processes on loopback.

    \b
    hack/federation up                        two members with Karmada, in about a minute
    eval "$(hack/federation env)"             KUBECONFIG and PATH for this shell
    kubectl get clusters                      contexts: federation, m1, m2, …
    hack/federation down                      nothing is left

    The programs are built from the Go module proxy when first needed (about ten minutes on two cores) and kept in
    ~/.cache/federation-quota. FEDERATION_BIN_DIR names a folder with ready ones instead.
    """


@cli.command()
@in_directory
@click.option("--members", type=click.IntRange(0, 20), default=2, show_default=True, help="How many member clusters.")
@click.option("--karmada/--no-karmada", default=True, show_default=True, help="With or without Karmada's programs.")
@click.option(
    "--nodes",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    help="Nodes per member: with nodes, members run pods.",
)
@click.option(
    "--quota",
    type=click.IntRange(0, 5),
    default=0,
    show_default=True,
    help="Replicas of federation-quota itself, from this checkout; needs Karmada.",
)
@click.option("--node-capacity", default="cpu=8,memory=32Gi,pods=110", show_default=True, help="What each node has.")
@click.option(
    "--flag",
    "flags",
    multiple=True,
    metavar="PROCESS=FLAG",
    help="One more flag for a process, as in federation-apiserver=--v=4; may be repeated.",
)
def up(
    directory: Path, members: int, karmada: bool, nodes: int, quota: int, node_capacity: str, flags: tuple[str, ...]
) -> None:
    """Start a federation, or start again what has died in a running one."""
    if quota and not karmada:
        raise click.BadParameter("federation-quota needs Karmada", param_hint="--quota")
    shape = Shape(members, karmada, nodes, quota, _pairs(node_capacity), _flags(flags))
    federation = Federation(directory)
    with interruptible(), Guard() as guard:
        federation.up(shape, guard)
        guard.release()
    where = "" if str(directory) == DEFAULT else f" --dir {directory}"
    say(f'to use it: eval "$(hack/federation env{where})" && kubectl get clusters')


@cli.command()
@in_directory
def down(directory: Path) -> None:
    """Stop everything and remove the folder."""
    was_there = Federation(directory).down()
    say(f"nothing is left of the federation in {directory}" if was_there else f"there is no federation in {directory}")


@cli.command()
@in_directory
@click.option("--output", "-o", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(directory: Path, output: str) -> None:
    """Show every process; exit 1 where one is not ready."""
    found = Federation(directory).status()
    if output == "json":
        click.echo(json.dumps([asdict(one) for one in found], indent=1, default=str))
    else:
        width = max(len(one.name) for one in found)
        click.echo(f"{'NAME':{width}}  {'STATE':9}  {'PID':>7}  PORT")
        for one in found:
            click.echo(f"{one.name:{width}}  {one.state:9}  {one.pid or '-':>7}  {one.port}")
    broken = [one for one in found if one.state != "ready"]
    if broken:
        names = ", ".join(f"{one.name} ({one.state})" for one in broken)
        raise FederationError(f"{names}: `hack/federation logs NAME` tells more, `up` starts again what has died")


@cli.command()
@in_directory
def env(directory: Path) -> None:
    """Print the exports that let this shell use the federation."""
    environment = Federation(directory).environment()
    click.echo(f"export KUBECONFIG='{environment['KUBECONFIG']}'")
    click.echo(f"export PATH='{environment['PATH']}':\"$PATH\"")


@cli.command()
@in_directory
@click.option("--follow", "-f", is_flag=True, help="Go on as more is written, until Ctrl-C.")
@click.argument("name")
def logs(directory: Path, follow: bool, name: str) -> None:
    """Print the log of one process (`status` lists the names)."""
    with Federation(directory).log(name).open("rb") as log, interruptible():
        shutil.copyfileobj(log, sys.stdout.buffer)
        while follow:
            sys.stdout.buffer.flush()
            time.sleep(0.2)
            shutil.copyfileobj(log, sys.stdout.buffer)


@cli.command()
@click.option("--into", type=click.Path(path_type=Path), help="Copy the programs there, for FEDERATION_BIN_DIR.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(list(programs.GROUPS)),
    help="Build these sets alone; may be repeated. Default: federation and chart.",
)
def build(into: Path | None, only: tuple[str, ...]) -> None:
    """Build programs now, instead of when first needed."""
    named = [wanted for name in only or ("federation", "chart") for wanted in programs.GROUPS[name]]
    wanted = list({one.name: one for one in named}.values())  # each once
    with interruptible(), Guard() as guard:
        folders = programs.provide_all(wanted, guard)
        if into:
            for folder in folders:
                shutil.copytree(folder, into, symlinks=True, dirs_exist_ok=True)
    names = ", ".join(one.name for one in wanted)
    say(f"{names}: all programs are in {into}" if into else f"{names}: all programs are built")


def main() -> None:
    """Run it: an error of ours is one line and exit code 1, an interruption exit code 130."""
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except InterruptedByUserError as error:
        say(f"federation: {error}")
        sys.exit(130)
    except FederationError as error:
        say(f"federation: {error}")
        sys.exit(1)
    except OSError as error:
        # A full disk, a folder that may not be written to: the system's words are clear enough.
        say(f"federation: {error.strerror}: {error.filename}" if error.filename else f"federation: {error}")
        sys.exit(1)


def _pairs(text: str) -> dict[str, str]:
    pairs = dict(part.partition("=")[::2] for part in text.split(",") if part)
    if not all(pairs.values()):
        raise click.BadParameter(f"{text!r} is not of the form cpu=8,memory=32Gi", param_hint="--node-capacity")
    return pairs


def _flags(flags: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for flag in flags:
        name, _, value = flag.partition("=")
        if not value:
            raise click.BadParameter(f"{flag!r} is not of the form PROCESS=FLAG", param_hint="--flag")
        found.setdefault(name, []).append(value)
    return found
