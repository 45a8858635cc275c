"""Quotas of others, as ours: what they become, and what is said of the rest."""

from typing import Any

import yaml

from federation_quota.elastic import koordinator, nos
from federation_quota.elastic.imported import Imported

PREFIX = "quota.scheduling.koordinator.sh"


def manifests(text: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(text) if one]


def found(imported: Imported) -> dict[str, dict[str, Any]]:
    return {f"{one['kind']}/{one['metadata']['name']}": one["spec"] for one in imported.objects}


def said(imported: Imported) -> str:
    return "\n".join(str(note) for note in imported.notes)


PROPOSAL = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata:
  name: test
  namespace: test
  annotations:
    quota.scheduling.koordinator.sh/runtime: "{cpu:4, memory: 8Gi}"
    quota.scheduling.koordinator.sh/shared-weight: "{cpu:4, memory: 8Gi}"
  labels:
    quota.scheduling.koordinator.sh/is-parent: false
    quota.scheduling.koordinator.sh/parent-quota-name: "parent"
    quota.scheduling.koordinator.sh/allow-lent-resource: true
spec:
  max: {cpu: 20, memory: 40Gi, nvidia.com/gpu: 2}
  min: {cpu: 10, memory: 20Gi, nvidia.com/gpu: 1}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata:
  name: parent
  namespace: kube-system
  labels: {quota.scheduling.koordinator.sh/is-parent: "true"}
spec:
  max: {cpu: 40, memory: 80Gi, nvidia.com/gpu: 2}
  min: {cpu: 10, memory: 20Gi, nvidia.com/gpu: 1}
"""


def test_the_example_of_the_proposal() -> None:
    imported = koordinator.convert(manifests(PROPOSAL))
    assert imported.notes == []
    assert [one["kind"] for one in imported.objects] == ["CompositeElasticQuota", "ElasticQuota"]
    assert imported.objects[1]["metadata"] == {"name": "test", "namespace": "test"}
    assert found(imported) == {
        "CompositeElasticQuota/parent": {
            "max": {"cpu": "40", "memory": "80Gi", "nvidia.com/gpu": "2"},
            "min": {"cpu": "10", "memory": "20Gi", "nvidia.com/gpu": "1"},
        },
        "ElasticQuota/test": {
            "parent": "parent",
            "max": {"cpu": "20", "memory": "40Gi", "nvidia.com/gpu": "2"},
            "min": {"cpu": "10", "memory": "20Gi", "nvidia.com/gpu": "1"},
            "sharedWeight": {"cpu": "4", "memory": "8Gi"},
        },
    }


def quota(
    name: str, labels: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, **spec: object
) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "koordinator-system",
        "labels": {f"{PREFIX}/{key}": value for key, value in (labels or {}).items()},
        "annotations": {f"{PREFIX}/{key}": value for key, value in (annotations or {}).items()},
    }
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


def test_the_released_spelling_and_what_goes_beyond_the_proposal() -> None:
    annotations = {
        "namespaces": '["a", "b"]',
        "admission": '{"cpu": 0}',
        "max-strict-check-resource-keys": '["cpu"]',
        "shared-weight": '{"cpu": "5"}',
    }
    labels = {"parent": "koordinator-root-quota", "allow-lent-resource": "false", "allow-force-update": "true"}
    imported = koordinator.convert([quota("team", labels, annotations, min={"cpu": 1}, max={"cpu": 2})])
    assert found(imported) == {
        "CompositeElasticQuota/team": {
            "min": {"cpu": "1"},
            "max": {"cpu": "2"},
            "sharedWeight": {"cpu": "5"},
            "allowLentResource": False,
            "admission": {"cpu": "0"},
            "strictMax": ["cpu"],
            "namespaces": ["a", "b"],
        }
    }
    assert "allow-force-update was left out" in said(imported)


def test_no_limit_but_in_name_is_no_limit() -> None:
    imported = koordinator.convert(
        [quota("team", annotations={"namespaces": '["a"]'}, max={"cpu": 2**63 // 5, "memory": 5})]
    )
    assert found(imported)["CompositeElasticQuota/team"]["max"] == {"memory": "5"}


def test_the_default_quota_becomes_the_default_group_and_the_others_of_the_system_are_said() -> None:
    given = [
        quota(name, min={"cpu": 1})
        for name in (koordinator.DEFAULT_QUOTA, koordinator.SYSTEM_QUOTA, koordinator.ROOT_QUOTA)
    ]
    imported = koordinator.convert(given)
    assert found(imported)["QuotaTree/default"] == {"defaultGroup": koordinator.DEFAULT_QUOTA}
    assert [one["kind"] for one in imported.objects] == ["CompositeElasticQuota", "QuotaTree"]
    assert "systemGroup" in said(imported)
    assert "no quota here" in said(imported)
    assert "refused" not in said(imported)


def test_the_root_of_a_tree_becomes_a_tree() -> None:
    imported = koordinator.convert(
        [
            quota(
                "gpu-root",
                {"is-root": "true", "tree-id": "gpus", "is-parent": "true"},
                {"total-resource": '{"cpu": 9}'},
            ),
            quota("leaf", {"parent": "gpu-root", "tree-id": "gpus"}, {"namespaces": '["a"]'}, min={"cpu": 1}),
        ]
    )
    assert found(imported) == {
        "QuotaTree/gpus": {"total": {"cpu": "9"}},
        "CompositeElasticQuota/leaf": {"tree": "gpus", "min": {"cpu": "1"}, "max": {}, "namespaces": ["a"]},
    }


def test_a_leaf_that_workloads_choose_is_offered_to_all_and_that_is_said() -> None:
    imported = koordinator.convert([quota("team", min={"cpu": 1})])
    assert found(imported)["CompositeElasticQuota/team"]["offeredTo"] == {"namespaceSelector": {}}
    assert "narrow spec.offeredTo" in said(imported)


def test_what_cannot_be_read_or_would_be_refused_is_said() -> None:
    given = [
        quota("a", annotations={"shared-weight": "heavy", "namespaces": '["a"]'}, min={"cpu": "x", "memory": "-1"}),
        quota("b", annotations={"namespaces": '["b"]'}, min={"cpu": "1500u"}),
        quota("c", {"parent": "nobody"}, {"namespaces": '["c"]'}),
        quota("d", annotations={"namespaces": '["a"]'}, min={"cpu": 3}, max={"cpu": 2}),
        quota("d", annotations={"novelty": "1"}),
        {"apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile", "metadata": {"name": "p"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}},
    ]
    told = said(koordinator.convert(given))
    for words in (
        "shared-weight cannot be read",
        "min of cpu was left out",
        "below zero",
        "rounded up from 1500u to 2m",
        "there is no such CompositeElasticQuota",
        "must not be above max",
        "a namespace has one quota",
        "names are one for all namespaces",
        "a profile selects nodes",
        "ConfigMap m: is no quota",
    ):
        assert words in told


def test_workloads_that_name_a_quota_get_our_labels() -> None:
    pod = {"metadata": {"labels": {f"{PREFIX}/quota-name": "team", f"{PREFIX}/preemptible": False}}}
    given = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": pod}}
    (other,) = koordinator.convert([given]).others
    assert other["metadata"]["labels"] == {
        "quota.karmada.io/quota-name": "team",
        "quota.karmada.io/preemptible": "false",
    }
    assert other["spec"] == given["spec"]


NOS = """
apiVersion: n8s.nebuly.ai/v1alpha1
kind: ElasticQuota
metadata: {name: quota-a, namespace: team-a}
spec:
  min: {cpu: 2, n8s.nebuly.ai/gpu-memory: 16}
  max: {cpu: 10}
---
apiVersion: nos.nebuly.com/v1alpha1
kind: CompositeElasticQuota
metadata: {name: pair, namespace: default}
spec:
  min: {nos.nebuly.com/gpu-memory: 30}
  namespaces: [team-b, team-c]
"""


def test_the_example_of_nos() -> None:
    imported = nos.convert(manifests(NOS))
    assert imported.notes == []
    assert found(imported) == {
        "QuotaTree/default": {"mode": "FairShare"},
        "CompositeElasticQuota/pair": {
            "min": {"quota.karmada.io/gpu-memory": "30"},
            "namespaces": ["team-b", "team-c"],
        },
        "ElasticQuota/quota-a": {"min": {"cpu": "2", "quota.karmada.io/gpu-memory": "16"}, "max": {"cpu": "10"}},
    }


def test_a_namespace_under_two_quotas_goes_to_the_composite_and_names_are_made_unique() -> None:
    def composite(namespace: str, *namespaces: str) -> dict[str, Any]:
        metadata = {"name": "pair", "namespace": namespace}
        spec = {"min": {"cpu": 1}, "namespaces": list(namespaces)}
        return {
            "apiVersion": "nos.nebuly.com/v1alpha1",
            "kind": "CompositeElasticQuota",
            "metadata": metadata,
            "spec": spec,
        }

    given = [*manifests(NOS), composite("x", "team-a", "team-b"), composite("y", "team-c")]
    given.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    imported = nos.convert(given)
    assert sorted(found(imported)) == [
        "CompositeElasticQuota/pair",
        "CompositeElasticQuota/x-pair",
        "QuotaTree/default",
    ]
    told = said(imported)
    assert "ElasticQuota team-a/quota-a: was left out: CompositeElasticQuota x/pair has namespace team-a" in told
    assert "is called x-pair here" in told
    assert "no namespace is left" in told
    assert "Pod p: is no quota of nos" in told
