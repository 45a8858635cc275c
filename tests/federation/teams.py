"""Teams that share a tree of their own, on clusters that exist on paper alone: what there is can change at once."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from localfed.federation import Federation
from localfed.fixtures import clear
from tests.federation.news import NEWS
from tests.federation.stage import Stage

GROUP = "quota.karmada.io/v1alpha1"


@dataclass(frozen=True)
class Teams:
    """A tree, its clusters, and a namespace for each team."""

    federation: Federation
    tree: str
    stages: dict[str, Stage]
    guests: list[Stage] = field(default_factory=list)

    def quota(self, team: str) -> dict[str, Any]:
        """A team's quota as it is stored, or a parent's."""
        if team in self.stages:
            return self.stages[team].get("elasticquota", team) or {}
        return self.federation.api.get("compositeelasticquota", f"{self.tree}-{team}")

    def composite(self, name: str, **spec: Any) -> None:  # noqa: ANN401
        """One more quota over several namespaces."""
        self.federation.api.apply(_composite(f"{self.tree}-{name}", {"tree": self.tree, **spec}))

    def namespace(self, name: str, **labels: str) -> Stage:
        """A namespace without a quota of its own; it goes with the others."""
        place = {"name": f"{self.tree}-{name}", "labels": labels}
        self.federation.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": place})
        self.guests.append(Stage(self.federation, f"{self.tree}-{name}"))
        return self.guests[-1]

    def runtime(self, team: str) -> str:
        """The cpu that a team may use now."""
        return str((self.quota(team).get("status") or {}).get("runtime", {}).get("cpu", ""))

    def used(self, team: str) -> str:
        """The cpu that a team uses, as its status says."""
        return str((self.quota(team).get("status") or {}).get("used", {}).get("cpu", ""))

    def running(self, team: str) -> str:
        """The cpu that a team's pods use in the members, as its status says."""
        return str((self.quota(team).get("status") or {}).get("running", {}).get("cpu", ""))

    def share(self, cluster: str, cpu: str, *, is_ready: bool = True) -> None:
        """A cluster with that much; Karmada schedules nothing to it, because it serves no API.

        It fetches its Works itself, or rather, nobody does: a cluster that is pushed to is tried again and again, with
        a Work for every namespace and an event for every failure.
        """
        name = f"{self.tree}-{cluster}"
        about = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}}
        labelled = {**about, "metadata": {"name": name, "labels": {"tree": self.tree}}, "spec": {"syncMode": "Pull"}}
        self.federation.api.apply(labelled)
        _set_status(self.federation, name, is_ready=is_ready, cpu=cpu)


@contextmanager
def sharing(
    federation: Federation,
    mins: dict[str, str],
    parents: dict[str, str] | None = None,  # of a team, or of a parent: the parent above it
    **spec: Any,  # noqa: ANN401
) -> Iterator[Teams]:
    """Teams with these mins of cpu, in a tree of that specification; those that others are below are parents."""
    tree = f"tree-{uuid.uuid4().hex[:8]}"
    above = parents or {}
    stages = {team: Stage(federation, f"{tree}-{team}") for team in mins if team not in above.values()}
    selector = {"clusterSelector": {"matchLabels": {"tree": tree}}}
    objects: list[dict[str, Any]] = [
        {"apiVersion": GROUP, "kind": "QuotaTree", "metadata": {"name": tree}, "spec": {**selector, **spec}}
    ]
    for team, cpu in mins.items():
        quota = {"tree": tree, "min": {"cpu": cpu}}
        if team in above:
            quota["parent"] = f"{tree}-{above[team]}"
        if team not in stages:
            objects.append(_composite(f"{tree}-{team}", quota))
            continue
        place = stages[team].namespace
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}})
        metadata = {"name": team, "namespace": place}
        objects.append({"apiVersion": GROUP, "kind": "ElasticQuota", "metadata": metadata, "spec": quota})
    federation.api.apply(*objects)
    teams = Teams(federation, tree, stages)
    try:
        with NEWS.about(federation, *(stage.namespace for stage in stages.values())):
            yield teams
    finally:
        for stage in (*stages.values(), *teams.guests):
            clear(federation, stage.namespace)
        _unregister(federation, tree)


def _composite(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": GROUP, "kind": "CompositeElasticQuota", "metadata": {"name": name}, "spec": spec}


def _unregister(federation: Federation, tree: str) -> None:
    """Take the tree's clusters out of the federation; Karmada looks every ten seconds whether they may go."""
    for one in federation.api.list("clusters", labels=f"tree={tree}"):
        name = one["metadata"]["name"]
        # Of a cluster that is not ready it lets go without asking it.
        _set_status(federation, name, is_ready=False)
        federation.api.delete("cluster", name)


def _set_status(federation: Federation, cluster: str, *, is_ready: bool, **allocatable: str) -> None:
    ready = {
        "type": "Ready",
        "status": str(is_ready),
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"conditions": [ready], "resourceSummary": {"allocatable": allocatable}}
    about = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": cluster}}
    federation.api.apply({**about, "status": status}, subresource="status")
