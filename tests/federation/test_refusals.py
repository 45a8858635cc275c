"""Whoever looks at a workload reads there why it, or its copy in a member, was refused: Karmada makes Events of it.

Karmada writes its Events one by one. So this comes late, when no other test makes any; those look into Karmada's log.
"""

import pytest

from tests.federation.manifests import CPU_PATH, DUPLICATED, deployment, override, policy, quota
from tests.federation.stage import Stage, eventually

pytestmark = [pytest.mark.federation, pytest.mark.alone, pytest.mark.last(0)]


def test_a_refused_binding_and_a_refused_copy_are_events_on_the_workload(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "20m"}), policy(DUPLICATED))
    stage.quota_active("q")
    stage.apply(override("more", CPU_PATH, "20m", clusters="m1"), deployment("web", 1, "10m"))
    text = "would get cpu=20m, admitted 10m: more than quota q admitted"
    eventually(lambda: stage.has_event("web", "SyncWorkFailed", text), what="why the copy is refused")
    stage.apply(deployment("more", 1, "10m"))
    text = "exceeded quota: q, requested: cpu=10m, used: cpu=20m, limited: cpu=20m"
    eventually(lambda: stage.has_event("more", "ApplyPolicyFailed", text), what="why the binding is refused")
