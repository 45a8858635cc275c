"""The demo: a federation of one's own, and two stories told on it with real commands and their real output.

`make demo` runs it. Every line that starts with `$` can be typed by the reader afterwards: the federation stays up.
"""

import shlex
import subprocess
import sys
import time
from pathlib import Path

import click

from environment import ROOT
from localfed.console import say
from localfed.directory import Shape
from localfed.errors import FederationError
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.interruption import interruptible

QUOTAS = "kubectl get elasticquotas -A"
EVENTS = "kubectl -n shop get events -o custom-columns=REASON:.reason,MESSAGE:.message"


# 100 cpu in all, and members that are missed as soon as they are gone.
SHAPE = Shape(
    members=2,
    nodes=2,
    quota=2,
    capacity={"cpu": "25", "memory": "100Gi", "pods": "110"},
    flags={"karmada-controller-manager": ["--cluster-failure-threshold=2s", "--cluster-success-threshold=2s"]},
)


class Narrator:
    """Tells the story: a sentence, a command, what the command printed."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation

    def tell(self, text: str) -> None:
        """A sentence for the reader."""
        click.echo(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n# {text}")

    def run(self, command: str, until: str = "") -> None:
        """Run a command as the reader would type it, and show both; as often as it takes to see what is waited for."""
        click.echo(f"$ {command}")
        environment = self.federation.environment()
        program, *arguments = shlex.split(command)
        if program != "kubectl":
            raise ValueError(f"the story is told with kubectl, not {program}")
        found = Path(environment["PATH"].split(":")[0]) / program
        settings = {"KUBECONFIG": environment["KUBECONFIG"], "HOME": str(self.federation.directory.path)}
        deadline = time.monotonic() + 180
        while True:
            result = subprocess.run(
                [found, *arguments], cwd=ROOT, env=settings, check=False, text=True, capture_output=True, timeout=180
            )
            printed = (result.stdout + result.stderr).rstrip()
            if result.returncode or until in printed or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        click.echo(printed)
        if result.returncode or until not in printed:
            raise FederationError(f"the story stopped at {command!r}; the federation stays up for a look")


def clear(federation: Federation) -> None:
    """Nothing of an earlier telling is in the way of this one: neither in the quotas nor on the nodes."""
    federation.kubectl("delete", "deployment", "web", "reports", "-n", "shop", "--ignore-not-found")
    for team in ("a", "b"):
        federation.kubectl("delete", "-f", str(ROOT / "examples" / "teams" / f"team-{team}.yaml"), "--ignore-not-found")


def tell_story(narrator: Narrator) -> None:
    """A quota of 10 cpu, a Deployment that fits, one that does not, and what happens when the first goes."""
    tell, run = narrator.tell, narrator.run
    tell("A federation API server, two member clusters that Karmada looks after, and federation-quota before them:")
    run("kubectl get clusters")
    tell("A team has a namespace, a policy that spreads its Deployments, and 10 cpu in all clusters together.")
    run("kubectl apply -f examples/shop/namespace.yaml -f examples/shop/policy.yaml -f examples/shop/quota.yaml")
    run("kubectl -n shop get karmadaquota", until="cpu: 0/10")
    tell("It applies an ordinary Deployment, 4 x 1500m = 6 cpu. There is room.")
    run("kubectl apply -f examples/shop/web.yaml")
    run("kubectl -n shop wait --for=create resourcebinding/web-deployment --timeout=120s")
    run("kubectl -n shop wait --for=condition=FullyApplied resourcebinding/web-deployment --timeout=120s")
    run("kubectl --context m1 -n shop rollout status deployment/web --timeout=120s")
    run("kubectl --context m1 -n shop get deployments")
    run("kubectl --context m2 -n shop get deployments")
    run("kubectl -n shop get karmadaquota")
    tell("Another 6 cpu do not fit: kubectl says so at once,")
    run("kubectl apply -f examples/shop/reports.yaml")
    tell("the Deployment's events say why,")
    run(f"{EVENTS} --field-selector=involvedObject.name=reports,reason=ApplyPolicyFailed", until="exceeded quota")
    tell("and nothing of it has reached a member.")
    run("kubectl --context m1 -n shop get deployments")
    run("kubectl --context m2 -n shop get deployments")
    run("kubectl -n shop get karmadaquota")
    tell("The first one goes, and the second arrives by itself.")
    run("kubectl -n shop delete deployment web")
    run("kubectl -n shop wait --for=create resourcebinding/reports-deployment --timeout=120s")
    run("kubectl -n shop wait --for=condition=FullyApplied resourcebinding/reports-deployment --timeout=120s")
    run("kubectl --context m1 -n shop get deployments")
    run("kubectl --context m2 -n shop get deployments")
    run("kubectl -n shop get karmadaquota")


def tell_of_two_teams(narrator: Narrator) -> None:
    """Two teams share 100 cpu: borrowed, given back by priority, and less for both when a member dies."""
    tell, run, federation = narrator.tell, narrator.run, narrator.federation
    tell("Two teams share what the members have, 100 cpu: 40 are promised to A, 60 to B.")
    run("kubectl apply -f examples/teams/namespaces.yaml -f examples/teams/classes.yaml -f examples/teams/quotas.yaml")
    for member in federation.members:
        run(f"kubectl --context {member} apply -f examples/teams/classes.yaml")
    run("kubectl get quotatree", until="cpu: 0/100")
    tell("A wants 80. B has nothing to do yet, so A borrows 40 of it.")
    run("kubectl apply -f examples/teams/team-a.yaml")
    run(QUOTAS, until="cpu: 80/80")
    tell("B comes, and wants all of its 60. A gives back: what matters least waits.")
    run("kubectl apply -f examples/teams/team-b.yaml")
    run(QUOTAS, until="cpu: 60/60")
    run("kubectl -n team-a get resourcebindings -L quota.karmada.io/held,quota.karmada.io/capacity")
    run("kubectl -n team-a get events --field-selector=reason=Displaced", until="crawl")
    tell("A member dies, and with it half of the 100 cpu. Mins shrink in proportion; again the important stay.")
    federation.kill("m2-apiserver")
    run("kubectl get quotatree", until="/50")
    run(QUOTAS, until="cpu: 30/30")
    run("kubectl get resourcebindings -A -l quota.karmada.io/held=true")
    tell("It comes back, and so does everybody.")
    with Guard() as guard:
        federation.start("m2-apiserver", guard)
        guard.release()
    run("kubectl get quotatree", until="cpu: 100/100")
    run(QUOTAS, until="cpu: 60/60")


@click.command()
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=ROOT / ".demo", show_default=".demo")
def main(directory: Path) -> None:
    """Bring up a federation with two members, tell both stories, and leave it running."""
    federation = Federation(directory)
    try:
        with interruptible(), Guard() as guard:
            federation.up(SHAPE, guard)
            guard.release()
        narrator = Narrator(federation)
        clear(federation)
        tell_story(narrator)
        tell_of_two_teams(narrator)
    except FederationError as error:
        say(f"demo: {error}")
        sys.exit(1)
    where = "" if directory == ROOT / ".demo" else f" --dir {directory}"
    folder = where or " --dir .demo"
    click.echo(f"""
It stays up. To play with it:
  eval "$(hack/federation env{folder})"
  kubectl -n shop get karmadaquota
  kubectl -n shop scale deployment reports --replicas=9
  kubectl explain karmadaquota.spec
To end it: {"make demo-down" if not where else f"hack/federation down{where}"}""")


if __name__ == "__main__":
    main()
