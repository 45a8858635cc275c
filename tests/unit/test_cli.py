"""`kubectl fedquota`: what is printed can be applied, and what is said is said to people."""

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from federation_quota.cli.__main__ import main
from federation_quota.elastic import validation
from tests.unit.test_elastic_import import NOS, PROPOSAL

Said = pytest.CaptureFixture[str]


def written(tmp_path: Path, text: str, name: str = "theirs.yaml") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def printed(said: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(said))


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [f"{one['kind']}/{one['metadata']['name']}" for one in objects]


def test_koordinators_quotas_come_out_in_the_order_in_which_they_can_be_applied(tmp_path: Path, capsys: Said) -> None:
    assert main(["import", "koordinator", "-f", written(tmp_path, PROPOSAL)]) == 0
    out, err = capsys.readouterr()
    objects = printed(out)
    assert names(objects) == ["CompositeElasticQuota/parent", "ElasticQuota/test"]
    assert {one["apiVersion"] for one in objects} == {"quota.karmada.io/v1alpha1"}
    assert [error for one in objects for error in validation.validate_quota(one)] == []
    assert err == ""


def test_the_quotas_of_nos_come_with_their_tree(tmp_path: Path, capsys: Said) -> None:
    assert main(["import", "nos", "-f", written(tmp_path, NOS)]) == 0
    objects = printed(capsys.readouterr().out)
    assert names(objects)[0] == "QuotaTree/default"
    assert objects[0]["spec"] == {"mode": "FairShare"}


def test_several_files_and_what_kubectl_get_prints_are_read(tmp_path: Path, capsys: Said) -> None:
    parts = [one for one in yaml.safe_load_all(PROPOSAL) if one]
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": parts[:1]})
    files = [written(tmp_path, listed, "a.yaml"), written(tmp_path, yaml.safe_dump(parts[1]), "b.yaml")]
    assert main(["import", "koordinator", "-f", files[0], "-f", files[1]]) == 0
    assert len(printed(capsys.readouterr().out)) == 2


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(NOS))
    assert main(["import", "nos", "-f", "-"]) == 0
    assert len(printed(capsys.readouterr().out)) == 3


def test_what_could_not_be_carried_over_is_said_beside_what_could(tmp_path: Path, capsys: Said) -> None:
    pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    assert main(["import", "nos", "-f", written(tmp_path, NOS + pod)]) == 0
    out, err = capsys.readouterr()
    assert err == "note: Pod p: is no quota of nos: it was left out\n"
    assert len(printed(out)) == 3


def test_workloads_keep_times_as_they_were_written_and_nothing_is_abbreviated(tmp_path: Path, capsys: Said) -> None:
    workload = """---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  creationTimestamp: 2024-01-01T00:00:00Z
  labels: &both {quota.scheduling.koordinator.sh/quota-name: test}
spec:
  template:
    metadata: {labels: *both}
"""
    assert main(["import", "koordinator", "-f", written(tmp_path, PROPOSAL + workload)]) == 0
    out = capsys.readouterr().out
    (web,) = (one for one in yaml.load_all(out, Loader=yaml.BaseLoader) if one["kind"] == "Deployment")
    assert web["metadata"]["creationTimestamp"] == "2024-01-01T00:00:00Z"
    assert web["metadata"]["labels"]["quota.karmada.io/quota-name"] == "test"
    assert "&id" not in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: [", "theirs.yaml: "),
        ("just words", "no Kubernetes object"),
        ("[1, 2]", "no Kubernetes object"),
        ("kind: ElasticQuota\nmetadata: [1]\n", "metadata of a ElasticQuota is no map"),
        ("kind: ElasticQuota\nmetadata: {labels: x}\n", "metadata.labels of a ElasticQuota is no map"),
        ("kind: ElasticQuota\nspec: 3\n", "spec of a ElasticQuota is no map"),
        ("", "there is no quota of nos in"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "there is no quota of nos in"),
    ],
)
def test_what_is_no_quota_is_one_clear_line_and_a_failure(tmp_path: Path, capsys: Said, text: str, words: str) -> None:
    assert main(["import", "nos", "-f", written(tmp_path, text)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("error: ")


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: Said) -> None:
    assert main(["import", "nos", "-f", str(tmp_path / "nowhere.yaml")]) == 1
    assert "nowhere.yaml: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["import"], ["import", "astrology", "-f", "x"], ["import", "nos"]])
def test_who_asks_for_something_else_is_told_what_there_is(arguments: list[str], capsys: Said) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: kubectl-fedquota" in capsys.readouterr().err
