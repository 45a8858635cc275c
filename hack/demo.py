"""The demo: a federation of one's own, and a story told on it with real commands and their real output.

`make demo` runs it. Every line that starts with `$` can be typed by the reader afterwards: the federation stays up.
"""

import shlex
import subprocess
import sys
from pathlib import Path

import click

from environment import ROOT
from localfed.console import say
from localfed.directory import Shape
from localfed.errors import FederationError
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.interruption import interruptible

NAMESPACE = "shop"


class Narrator:
    """Tells the story: a sentence, a command, what the command printed."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    def tell(self, text: str) -> None:
        """A sentence for the reader."""
        click.echo(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n# {text}")

    def run(self, command: str) -> None:
        """Run a command as the reader would type it, and show both."""
        click.echo(f"$ {command}")
        environment = self._federation.environment()
        program, *arguments = shlex.split(command)
        if program != "kubectl":
            raise ValueError(f"the story is told with kubectl, not {program}")
        found = Path(environment["PATH"].split(":")[0]) / program
        settings = {"KUBECONFIG": environment["KUBECONFIG"], "HOME": str(self._federation.directory.path)}
        result = subprocess.run(
            [found, *arguments], cwd=ROOT, env=settings, check=False, text=True, capture_output=True, timeout=180
        )
        click.echo((result.stdout + result.stderr).rstrip())
        if result.returncode:
            raise FederationError(f"the story stopped: {command!r} ended with {result.returncode}")


def tell_story(narrator: Narrator) -> None:
    """A Deployment applied to the federation lands in both members."""
    narrator.tell("A federation API server, and two member clusters that Karmada looks after:")
    narrator.run("kubectl get clusters")
    narrator.tell("A team has a namespace on the federation.")
    narrator.run("kubectl apply -f examples/shop.yaml")
    narrator.tell("It applies an ordinary Deployment, and a policy that says where it goes.")
    narrator.run(f"kubectl -n {NAMESPACE} apply -f examples/hello")
    narrator.tell("Karmada binds the two, and schedules the binding over the members:")
    narrator.run(f"kubectl -n {NAMESPACE} wait --for=create resourcebinding/hello-deployment --timeout=60s")
    narrator.run(
        f"kubectl -n {NAMESPACE} wait --for=condition=FullyApplied resourcebinding/hello-deployment --timeout=60s"
    )
    narrator.run(f"kubectl -n {NAMESPACE} get resourcebinding hello-deployment -o jsonpath={{.spec.clusters}}")
    narrator.tell("And there it is, in each of them, with running pods:")
    for member in ("m1", "m2"):
        narrator.run(f"kubectl --context {member} -n {NAMESPACE} rollout status deployment/hello --timeout=60s")
        narrator.run(f"kubectl --context {member} -n {NAMESPACE} get deployments,pods")
    narrator.tell("The federation sees them all as one:")
    narrator.run(
        f"kubectl -n {NAMESPACE} wait --for=jsonpath={{.status.readyReplicas}}=4 deployment/hello --timeout=60s"
    )
    narrator.run(f"kubectl -n {NAMESPACE} get deployments")


@click.command()
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=ROOT / ".demo", show_default=".demo")
def main(directory: Path) -> None:
    """Bring up a federation with two members, tell the story, and leave it running."""
    federation = Federation(directory)
    try:
        with interruptible(), Guard() as guard:
            federation.up(Shape(members=2, nodes=2), guard)
            guard.release()
        tell_story(Narrator(federation))
    except FederationError as error:
        say(f"demo: {error}")
        sys.exit(1)
    where = "" if directory == ROOT / ".demo" else f" --dir {directory}"
    folder = where or " --dir .demo"
    click.echo(f"""
It stays up. To play with it:
  eval "$(hack/federation env{folder})"
  kubectl get clusters
  kubectl -n {NAMESPACE} scale deployment hello --replicas=5
  kubectl --context m1 -n {NAMESPACE} get pods
To end it: {"make demo-down" if not where else f"hack/federation down{where}"}""")


if __name__ == "__main__":
    main()
