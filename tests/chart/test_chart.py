"""Every permutation renders, lints, and is accepted by a real API server; what makes no sense is refused, and named."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
import yaml

from federation_quota import api, metrics, names
from federation_quota.kube import config
from localfed.authority import Authority
from localfed.federation import Federation
from localfed.kubectl import KubectlError, documents
from tests.chart.helm import CHART, NAMESPACE, Helm, HelmError, Manifest, Values
from tests.chart.matrix import permutations

pytestmark = [pytest.mark.federation, pytest.mark.own]

ROOT = Path(__file__).resolve().parents[2]
PERMUTATIONS = dict(permutations())
PLAIN, MONITORED = "internal-kubeconfig-open-policies", "internal-kubeconfig-monitored-closed"

Rendered = dict[str, list[Manifest]]


@pytest.fixture(scope="module")
def rendered(helm: Helm) -> Rendered:
    """What each permutation comes to."""
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(PERMUTATIONS, pool.map(helm.template, PERMUTATIONS.values()), strict=True))


def of_kind(manifests: list[Manifest], *kinds: str) -> list[Manifest]:
    return [one for one in manifests if one["kind"] in kinds]


def pod_specs(manifests: list[Manifest]) -> list[dict[str, Any]]:
    owners = [one["spec"]["template"]["spec"] for one in of_kind(manifests, "Deployment", "Job")]
    return owners + [one["spec"] for one in of_kind(manifests, "Pod")]


def pods(manifests: list[Manifest]) -> list[Manifest]:
    """The pods that Deployments and Jobs would make: Pod Security looks at pods alone."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**one["spec"]["template"]["metadata"], "name": f"{one['metadata']['name']}-pod"},
            "spec": one["spec"]["template"]["spec"],
        }
        for one in of_kind(manifests, "Deployment", "Job")
    ]


def test_every_permutation_is_accepted_by_the_api_server(rendered: Rendered, server: Federation) -> None:
    """Objects that several permutations share are shown once; the rest under names of their own, all at once."""
    distinct: dict[str, Manifest] = {}
    for manifests in rendered.values():
        for one in [*manifests, *pods(manifests)]:
            metadata = {"namespace": NAMESPACE, **one["metadata"]}
            if one["kind"] in ("ClusterRole", "ClusterRoleBinding"):
                del metadata["namespace"]
            shown = {**one, "metadata": metadata}
            distinct.setdefault(json.dumps(shown, sort_keys=True), shown)
    accept(server, list(distinct.values()))


def accept(server: Federation, manifests: list[Manifest]) -> None:
    """Server-side, with every field known and every admission plugin asked; nothing is stored."""
    arguments = ("create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-")
    server.kubectl(*arguments, manifest=documents(*manifests))


def test_the_api_server_would_notice(rendered: Rendered, server: Federation) -> None:
    """A field that does not exist, and a pod that is not restricted: neither gets by."""
    pod = next(one for one in pods(rendered[PLAIN]))
    pod["metadata"]["namespace"] = NAMESPACE
    privileged = json.loads(json.dumps(pod).replace('"runAsNonRoot": true', '"runAsNonRoot": false'))
    with pytest.raises(KubectlError, match=r'violates PodSecurity "restricted:latest": runAsNonRoot != true'):
        accept(server, [privileged])
    monitor = of_kind(rendered[MONITORED], "ServiceMonitor")[0]
    with pytest.raises(KubectlError, match=r'unknown field "spec.endpoint"'):
        accept(server, [{**monitor, "spec": {**monitor["spec"], "endpoint": []}}])


def test_helm_has_nothing_to_complain_about(helm: Helm) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(helm.lint, PERMUTATIONS.values()))


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"webhok": {}}, "additional properties 'webhok' not allowed"),
        ({"webhook": {"replica": 3}}, "/webhook': additional properties 'replica' not allowed"),
        ({"webhook": {"replicas": 0}}, "/webhook/replicas': minimum: got 0, want 1"),
        ({"webhook": {"url": "http://plain"}}, "/webhook/url': 'http://plain' does not match pattern"),
        (
            {"certificates": {"mode": "acme"}},
            "/certificates/mode': value must be one of 'internal', 'certManager', 'pro",
        ),
        (
            {"certificates": {"mode": "provided"}},
            "certificates.provided.secretName is needed with certificates.mode=prov",
        ),
        ({"karmada": {"access": "token"}}, "karmada.server is needed with karmada.access=token: https://HOST:PORT"),
        ({"metrics": {"authorization": "basic"}}, "/metrics/authorization': value must be one of 'none', 'token'"),
        ({"image": {"digest": "latest"}}, "/image/digest': 'latest' does not match pattern"),
        ({"target": "member"}, "/target': value must be one of 'host', 'karmada'"),
        ({"log": {"level": "loud"}}, "/log/level': value must be one of"),
    ],
)
def test_wrong_values_are_refused_and_named(helm: Helm, values: Values, complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        helm.template(values)


def test_the_schema_knows_every_value_and_takes_no_other() -> None:
    def compare(value: object, schema: dict[str, Any], path: str) -> None:
        if isinstance(value, dict) and "properties" in schema:
            assert schema["additionalProperties"] is False, path
            assert set(value) <= set(schema["properties"]), path
            for key, below in value.items():
                compare(below, schema["properties"][key], f"{path}.{key}")

    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema["properties"]) - {"global"} == set(values)
    compare(values, schema, "values")


def test_pods_have_a_token_only_where_they_use_the_host_cluster(rendered: Rendered) -> None:
    for name, manifests in rendered.items():
        uses_host = "internal" in name or "guarded" in name
        if name.split("-")[0] not in ("internal", "cert", "issuer", "provided"):
            continue
        for spec in pod_specs([one for one in manifests if one["kind"] != "Pod"]):
            assert spec["automountServiceAccountToken"] is uses_host, name
            assert bool([one for one in spec["volumes"] if one["name"] == "host"]) is uses_host, name
        assert bool(of_kind(manifests, "Role", "ClusterRole")) is uses_host, name


def test_the_controllers_see_the_webhooks_key_only_where_they_serve_under_it(rendered: Rendered) -> None:
    def keys(name: str) -> list[str]:
        deployments = of_kind(rendered[name], "Deployment")
        spec = next(one for one in deployments if one["metadata"]["name"].endswith("controllers"))["spec"]
        volume = next(one for one in spec["template"]["spec"]["volumes"] if one["name"] == "certificate")
        return [one["key"] for one in volume["secret"]["items"]]

    names_of = {name.rpartition("-")[0]: name for name in rendered}
    assert keys(names_of["provided-kubeconfig-open"]) == ["ca.crt"]
    assert keys(names_of["provided-kubeconfig-guarded"]) == ["ca.crt", "tls.crt", "tls.key"]


def test_everything_runs_twice_and_is_not_taken_down_together(rendered: Rendered) -> None:
    manifests = rendered[PLAIN]
    deployments = {one["metadata"]["name"]: one for one in of_kind(manifests, "Deployment")}
    assert set(deployments) == {"federation-quota-webhook", "federation-quota-controllers"}
    budgets = {one["metadata"]["name"]: one for one in of_kind(manifests, "PodDisruptionBudget")}
    for name, deployment in deployments.items():
        assert deployment["spec"]["replicas"] == 2
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        selector = deployment["spec"]["selector"]["matchLabels"]
        assert selector.items() <= labels.items()
        assert budgets[name]["spec"]["selector"]["matchLabels"] == selector
        spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert [one["labelSelector"]["matchLabels"] for one in spread] == [selector] * 2
    service = next(
        one for one in of_kind(manifests, "Service") if one["metadata"]["name"] == "federation-quota-webhook"
    )
    assert service["spec"]["selector"] == deployments["federation-quota-webhook"]["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize(
    ("key", "folder", "server"),
    [
        ("karmada", "/etc/federation-quota/karmada", "https://karmada-apiserver.karmada-system.svc:5443"),
        ("host", "/var/run/secrets/kubernetes.io/serviceaccount", "https://kubernetes.default.svc"),
    ],
)
async def test_the_product_understands_the_kubeconfigs_that_the_chart_writes(
    rendered: Rendered, tmp_path: Path, key: str, folder: str, server: str
) -> None:
    maps = of_kind(rendered["internal-token-guarded-policies"], "ConfigMap")
    text: str = next(one for one in maps if one["metadata"]["name"].endswith("kubeconfig"))["data"][key]
    assert folder in text
    (tmp_path / "kubeconfig").write_text(text.replace(folder, str(tmp_path)))
    (tmp_path / "token").write_text("a-token\n")
    (tmp_path / "ca.crt").write_bytes(Authority(tmp_path / "pki", "ca").certificate.read_bytes())
    connection = await config.load(kubeconfig=str(tmp_path / "kubeconfig"))
    assert connection.server == server
    assert (await connection.credentials.identity()).headers["Authorization"] == "Bearer a-token"


def test_the_webhook_is_called_by_a_name_that_is_in_its_certificate(rendered: Rendered) -> None:
    manifests = rendered["outside"]
    arguments = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["args"]
        for one in of_kind(manifests, "Deployment")
    }
    assert "--webhook-url=https://203.0.113.7:8443" in arguments["federation-quota-controllers"]
    certificate = next(one for one in of_kind(manifests, "Certificate") if one["metadata"]["name"].endswith("webhook"))
    assert certificate["spec"]["ipAddresses"] == ["203.0.113.7", "2001:db8::7"]
    assert "quota.example.com" in certificate["spec"]["dnsNames"]


def test_what_the_roles_name_is_what_the_product_is_called(rendered: Rendered) -> None:
    """A name that changes in the code must change there too: nobody can install what they may not name."""
    rules = next(
        one for one in of_kind(rendered["karmada"], "ClusterRole") if one["metadata"]["name"].endswith("controllers")
    )["rules"]
    named = {name for rule in rules for name in rule.get("resourceNames", [])}
    assert {names.VALIDATING, names.ADVISING, names.MUTATING, names.SYSTEM} <= named
    assert {resource.name for resource in api.RESOURCES} <= named
    host = [rule for one in of_kind(rendered[PLAIN], "Role") for rule in one["rules"]]
    assert {name for rule in host for name in rule.get("resourceNames", [])} == {names.AUTHORITY_SECRET}


def test_every_flag_in_the_chart_is_one_that_the_program_has(rendered: Rendered) -> None:
    flags: dict[str, set[str]] = {}
    for manifests in rendered.values():
        for spec in pod_specs(manifests):
            container = spec["containers"][0]
            if container["command"][0] != "python":
                given = {one.partition("=")[0] for one in container["args"]}
                flags.setdefault(container["command"][0], set()).update(given)
    assert set(flags) == {"federation-quota-webhook", "federation-quota-controllers"}
    for program, given in flags.items():
        module = program.removeprefix("federation-quota-")
        said = subprocess.run(
            [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        known = set(re.findall(r"--[a-z-]+", said.stdout))
        assert given - known == set(), program


def test_every_metric_in_the_chart_is_one_that_is_served() -> None:
    served = {definition.name for definition in metrics.definitions()}
    for path in (ROOT / "charts").rglob("*"):
        named = re.findall(r"\bfederation_quota_[a-z_]+", path.read_text()) if path.is_file() else []
        assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in named} <= served, path


class Health(BaseHTTPRequestHandler):
    """Ready at first, and then not."""

    answers: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        self.send_response(self.answers.pop(0) if self.path == "/readyz" else 404)
        self.end_headers()
        self.wfile.write(b"views: bindings are still being read")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own
        """Not while testing."""


def test_helm_test_tells_ready_pods_from_others() -> None:
    Health.answers = [200, 200, 200, 503]
    with ThreadingHTTPServer(("127.0.0.1", 0), Health) as listener:
        Thread(target=listener.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{listener.server_port}/readyz"
        command = [sys.executable, "-c", (CHART / "files" / "ready.py").read_text(), url, url]
        good = subprocess.run(command, capture_output=True, text=True, check=False)
        assert good.returncode == 0, good.stderr
        bad = subprocess.run(command, capture_output=True, text=True, check=False)
        listener.shutdown()
    assert bad.returncode == 1
    assert f"{url} at 127.0.0.1: views: bindings are still being read" in bad.stderr


def test_alerts_and_dashboard_ask_for_metrics_alone(rendered: Rendered) -> None:
    manifests = rendered[MONITORED]
    rules = [
        rule
        for one in of_kind(manifests, "PrometheusRule")
        for group in one["spec"]["groups"]
        for rule in group["rules"]
    ]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["annotations"]["summary"], rule["alert"]
        assert "federation_quota_" in rule["expr"], rule["alert"]
    board = next(one for one in of_kind(manifests, "ConfigMap") if "dashboard" in one["metadata"]["name"])
    dashboard = json.loads(board["data"]["federation-quota.json"])
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert "federation_quota_" in target["expr"], panel["title"]


def test_the_image_has_no_registry_of_ours(rendered: Rendered) -> None:
    images = {spec["containers"][0]["image"] for spec in pod_specs(rendered[PLAIN])}
    assert images == {"federation-quota:0.1.0"}


def test_the_chart_is_of_the_same_version_as_the_product() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert chart["appVersion"] == version[1]


def test_what_follows_from_the_chart_is_up_to_date(helm: Helm) -> None:
    """The roles of local federations, and the table in the chart's README."""
    del helm  # it must be built by now
    checked = subprocess.run(
        [sys.executable, "hack/chart.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
