"""`federation-quota-controllers --uninstall`, on the run's own federation, when nobody needs the product any more.

It runs under the controllers' own roles, while two replicas of everything are still there: as the chart's hook does.
"""

import json
import subprocess
import sys

import pytest

from localfed import quota as product
from localfed.controlplane import FEDERATION
from tests.federation.manifests import DIVIDED, deployment, policy, quota
from tests.federation.stage import Stage, eventually

pytestmark = [pytest.mark.federation, pytest.mark.alone, pytest.mark.last(1)]

CONFIGURATIONS = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
OURS = ["-l", "app.kubernetes.io/part-of=federation-quota"]


def uninstall(stage: Stage) -> None:
    flags = [
        flag
        for flag in stage.federation.spec("quota-controllers-1").argv
        if flag.startswith(("--kubeconfig", "--host-kubeconfig", "--namespace", "--system-users"))
    ]
    command = [sys.executable, "-m", "controllers", "--uninstall", *flags]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_nothing_is_left_that_stands_in_the_federations_way(stage: Stage) -> None:
    kubectl = stage.federation.kubectl
    stage.apply(quota("q", {"cpu": "500m"}, onExceeded="Hold"), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 5), deployment("held", 4))

    def held() -> list[str]:
        return stage.names("resourcebindings", labels="quota.karmada.io/held=true")

    eventually(held, what="one of the two is held")
    stage.kubectl("create", "namespace", f"{stage.namespace}-d")
    refused = Stage(stage.federation, f"{stage.namespace}-d")
    refused.apply(quota("q", {"cpu": "100m"}), policy(DIVIDED))
    refused.quota_active("q")
    refused.apply(deployment("refused", 2))
    eventually(lambda: refused.status("q").get("waiting"), what="it is refused")
    assert kubectl("get", CONFIGURATIONS, *OURS, "-o", "name").count("\n") == 3

    uninstall(stage)

    assert kubectl("get", CONFIGURATIONS, *OURS, "-o", "name") == ""
    assert held() == [], "what was held is released"
    eventually(lambda: sum(stage.clusters("held").values()) == 4, what="and is scheduled")
    eventually(lambda: sum(refused.clusters("refused").values()) == 2, what="what was refused is tried again")
    # Nobody has to be there any more.
    for number in (1, 2):
        stage.federation.kill(f"quota-webhook-{number}")
    stage.apply(deployment("more", 50))
    eventually(lambda: sum(stage.clusters("more").values()) == 50, what="it is as if there had never been a quota")
    # Nor can a replica that goes on for a while bring it back: its leader has gone, and the place is taken.
    lease = json.loads(kubectl("get", "lease", product.CONTROLLERS, "-n", product.NAMESPACE, "-o", "json"))
    assert lease["spec"]["holderIdentity"] == "uninstall"
    assert kubectl("get", CONFIGURATIONS, *OURS, "-o", "name") == ""
    # What people wrote stays.
    assert stage.get("karmadaquota", "q") is not None
    assert "federation-quota-authority" not in kubectl("get", "secrets", "-n", product.NAMESPACE, "-o", "name")
    assert "federation-quota" not in kubectl("get", "flowschemas,prioritylevelconfigurations", "-o", "name")
    stage.federation.kubectl("delete", "namespace", refused.namespace, "--wait=false", context=FEDERATION)

    uninstall(stage)  # once more does no harm
