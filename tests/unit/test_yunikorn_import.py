"""YuniKorn's queue configuration, as ours: what it becomes, what is said of the rest, and what is refused."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.api import RESOURCES
from federation_quota.cli.__main__ import main
from federation_quota.elastic import quota as stored_quota
from federation_quota.elastic.forest import Forest, read_root
from federation_quota.elastic.imported import Imported
from federation_quota.limits.scheme import Scheme
from federation_quota.yunikorn import checks, conversion
from federation_quota.yunikorn.document import ConfigError
from tests.conformance.test_limits_config import as_ours, refusals

Said = pytest.CaptureFixture[str]

QUEUES = """
partitions:
- name: default
  placementrules:
  - {name: tag, value: namespace, parent: {name: fixed, value: root.shops}}
  - {name: provided}
  queues:
  - name: root
    submitacl: '*'
    limits:
    - {limit: everybody, users: ['*'], maxresources: {vcore: 20, memory: 64Gi}}
    queues:
    - name: research
      resources:
        max: {vcore: 100, memory: 200G}
      limits:
      - {users: [sue], maxresources: {vcore: 10}, maxapplications: 2}
      - {groups: [dev, '*'], maxapplications: 5}
      queues:
      - name: Vision
        resources:
          guaranteed: {vcore: 500m, nvidia.com/gpu: 2}
      - name: speech
        resources:
          guaranteed: {vcore: 3, memory: 4Gi}
    - name: shops
      queues:
      - name: web
        resources: {guaranteed: {vcore: 2}, max: {vcore: 4}}
"""


def imported(text: str) -> Imported:
    return conversion.convert(checks.load(text))


def found(given: Imported) -> dict[str, dict[str, Any]]:
    return {f"{one['kind']}/{one['metadata']['name']}": one["spec"] for one in given.objects}


def fits_the_schema(objects: list[dict[str, Any]]) -> bool:
    """Whether the API server would store exactly that, no field more or less."""
    models = {one.kind: one.model for one in RESOURCES}
    return all(
        models[one["kind"]].model_validate(one).model_dump(by_alias=True, exclude_unset=True)["spec"] == one["spec"]
        for one in objects
    )


def said(given: Imported) -> str:
    return "\n".join(str(note) for note in given.notes)


def test_partitions_are_trees_and_queues_are_quotas_with_their_limits() -> None:
    result = imported(QUEUES)
    assert found(result) == {
        "QuotaTree/default": {
            "limits": [{"limit": "everybody", "users": ["*"], "maxResources": {"cpu": "20", "memory": "64Gi"}}]
        },
        "CompositeElasticQuota/research": {
            "min": {"cpu": "3500m", "memory": "4Gi", "nvidia.com/gpu": "2"},
            "max": {"cpu": "100", "memory": "200G"},
            "limits": [
                {"users": ["sue"], "maxResources": {"cpu": "10"}, "maxApplications": 2},
                {"groups": ["dev", "*"], "maxApplications": 5},
            ],
        },
        "CompositeElasticQuota/vision": {
            "parent": "research",
            "min": {"cpu": "500m", "nvidia.com/gpu": "2"},
            "offeredTo": {"namespaceSelector": {}},
        },
        "CompositeElasticQuota/speech": {
            "parent": "research",
            "min": {"cpu": "3", "memory": "4Gi"},
            "offeredTo": {"namespaceSelector": {}},
        },
        "CompositeElasticQuota/shops": {"min": {"cpu": "2"}},
        "ElasticQuota/web": {"parent": "shops", "min": {"cpu": "2"}, "max": {"cpu": "4"}},
    }
    assert next(one for one in result.objects if one["kind"] == "ElasticQuota")["metadata"]["namespace"] == "web"
    assert fits_the_schema(result.objects)
    assert refusals(result.objects) == []
    told = said(result)
    assert "queue root.research.Vision: is called vision here" in told
    assert "queue root.research.speech: is for whoever names it" in told
    assert "would be refused" not in told


def one_queue(fields: str, partition: str = "") -> str:
    head = f"partitions:\n- name: default\n  {partition}\n  queues:\n"
    return f"{head}  - name: root\n    queues:\n    - {{name: a, {fields}}}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (one_queue("maxapplications: 9"), "queue root.a: maxapplications 9 was left out"),
        (one_queue("properties: {priority.offset: '5'}"), "property priority.offset was left out"),
        (one_queue("parent: true, childtemplate: {maxapplications: 3}"), "childtemplate was left out"),
        (one_queue("adminacl: 'sue dev'"), "adminacl 'sue dev' was left out"),
        (one_queue("resources: {max: {mem: 5}}"), "max of mem was left out"),
        (one_queue("resources: {max: {services: 5}}"), "max of services was left out"),
        (one_queue("resources: {max: {cpu: 5}, guaranteed: {vcore: 5}}"), "max of cpu was left out: YuniKorn calls it"),
        (one_queue("limits: [{users: [u], maxresources: {mem: 1}}]"), "limit 1 has no resource left that it limits"),
        (one_queue("limits: [{users: [u], maxresources: {mem: 1, memory: 0}}]"), "nobody is kept from memory by it"),
        (one_queue("parent: false", "nodesortpolicy: {type: fair}"), "nodesortpolicy was left out"),
        (one_queue("parent: false", "placementrules: [{name: user, create: true}]"), "rule user was left out"),
        (
            one_queue("parent: false", "placementrules: [{name: tag, value: namespace, create: true}]"),
            "makes a queue for every namespace",
        ),
        (one_queue("parent: false") + "---\nmore: 1\n", "has more than one document"),
    ],
)
def test_what_has_no_place_here_is_said(text: str, words: str) -> None:
    result = imported(text)
    assert words in said(result)
    assert refusals(result.objects) == []


def test_cpu_is_what_it_says_where_nothing_is_called_vcore() -> None:
    result = imported(
        one_queue("limits: [{users: [sue, bob], maxapplications: 2, maxresources: {cpu: 10, memory: 250G}}]")
    )
    assert found(result)["CompositeElasticQuota/a"]["limits"] == [
        {"users": ["sue", "bob"], "maxResources": {"cpu": "10", "memory": "250G"}, "maxApplications": 2}
    ]


def test_queues_of_one_name_are_called_by_their_paths() -> None:
    below = "{name: a, queues: [{name: x}]}, {name: b, queues: [{name: X}, {name: a_b}]}, {name: a@b}, {name: '@'}"
    result = imported(f"partitions: [{{queues: [{below}]}}]")
    names = [note.about.removeprefix("queue ") for note in result.notes if "is called" in note.what]
    assert names == ["root.a.x", "root.b.X", "root.b.a_b", "root.a@b", "root.@"]
    assert sorted(one["metadata"]["name"] for one in result.objects if one["kind"] != "QuotaTree") == [
        "a", "b", "queue", "root-a-b", "root-a-x", "root-b-a-b", "root-b-x",
    ]  # fmt: skip
    assert refusals(result.objects) == []


def test_other_partitions_are_trees_with_clusters_of_their_own() -> None:
    others = "{name: GPU_nodes, queues: [{name: b}]}, {name: default_, queues: []}"
    result = imported(f"partitions: [{others}, {{name: DEFAULT, queues: [{{name: a}}]}}]")
    assert found(result)["QuotaTree/gpu-nodes"] == {"clusterSelector": {"matchLabels": {"partition": "gpu-nodes"}}}
    assert found(result)["CompositeElasticQuota/b"]["tree"] == "gpu-nodes"
    assert "tree" not in found(result)["CompositeElasticQuota/a"]
    assert "QuotaTree/default-2" in found(result)
    assert "has the clusters that are labelled partition=gpu-nodes" in said(result)
    assert refusals(result.objects) == []


def test_a_rule_that_always_leads_to_one_queue_makes_it_the_default_group() -> None:
    result = imported(one_queue("parent: false", "placementrules: [{name: fixed, value: root.a}]"))
    assert found(result)["QuotaTree/default"] == {"defaultGroup": "a"}
    assert [one["kind"] for one in result.objects] == ["CompositeElasticQuota", "QuotaTree"]
    assert "would be refused" not in said(result)


def test_what_is_in_effect_lower_is_written_so() -> None:
    text = """
partitions:
- queues:
  - name: a
    resources: {max: {memory: 50}}
    limits: [{users: ['*'], maxresources: {vcore: 4}}]
    queues:
    - name: b
      limits: [{users: [sue], maxapplications: 1}]
      queues:
      - name: c
        limits: [{users: [sue, bob], maxapplications: 1, maxresources: {vcore: 9, memory: 60}}]
"""
    with pytest.raises(ConfigError, match=r"user bob max resource .* is greater than wildcard"):
        checks.load(text)
    result = imported(text.replace(", bob", ""))
    assert found(result)["CompositeElasticQuota/c"]["limits"] == [
        {"users": ["sue"], "maxResources": {"memory": "50", "cpu": "4"}, "maxApplications": 1}
    ]
    assert "user sue has a lower limit by a queue above" in said(result)
    assert refusals(result.objects) == []


def test_who_is_named_stays_so_whatever_is_left_of_their_limit() -> None:
    """Else they would have the wildcard's, and their group would count for another."""
    text = """
partitions:
- queues:
  - name: a
    resources: {max: {memory: 0}}
    queues:
    - name: b
      limits:
      - {users: [ann], maxresources: {mem: 5}}
      - {users: [bob], maxresources: {memory: 5}}
      - {users: ['*'], maxresources: {vcore: 1}}
      - {groups: [dev], maxresources: {mem: 1}}
      - {groups: ['*'], maxapplications: 9}
      queues:
      - name: c
        limits: [{users: [ann, bob], maxresources: {vcore: 7, mem: 3}}]
"""
    result = imported(text)
    any_number = 2**31 - 1
    assert found(result)["CompositeElasticQuota/b"]["limits"] == [
        {"users": ["ann"], "maxApplications": any_number},
        {"users": ["bob"], "maxApplications": any_number},
        {"users": ["*"], "maxResources": {"cpu": "1"}},
        {"groups": ["dev"], "maxApplications": any_number},
        {"groups": ["*"], "maxApplications": 9},
    ]
    assert found(result)["CompositeElasticQuota/c"]["limits"] == [
        {"users": ["ann", "bob"], "maxResources": {"cpu": "7"}, "maxApplications": any_number}
    ]
    assert refusals(result.objects) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("partitions: [{name: default, queue: []}]", "field queue not found in type configs.PartitionConfig"),
        ("Partitions: []", "field Partitions not found in type configs.SchedulerConfig"),
        ("partitions: {}", "cannot unmarshal !!map into []configs.PartitionConfig"),
        ("partitions: [{name: [x], queues: []}]", "cannot unmarshal !!seq into string"),
        (one_queue("parent: maybe"), "cannot unmarshal !!str `maybe` into bool"),
        (one_queue("maxapplications: '5'"), "cannot unmarshal !!str `5` into uint64"),
        (one_queue("maxapplications: 1.5"), "cannot unmarshal !!float `1.5` into uint64"),
        (one_queue("parent: true, parent: true"), 'mapping key "parent" already defined at line 7'),
        ("partitions: [{queues: &q [{name: a, queues: *q}]}]", "an anchor contains itself"),
        ("partitions: [", "yaml: while parsing"),
        ("partitions: [{name: default}]", "queue config is not set"),
        ("partitions: [{queues: []}, {name: Default, queues: []}]", "duplicate partition name found with name default"),
        ("partitions: [{queues: [{name: a}, {name: A}]}]", "duplicate child name found with name 'A', level 1"),
        ("partitions: [{queues: [{name: a.b}]}]", "invalid queue name 'a.b'"),
        (one_queue("submitacl: a b c"), "multiple spaces found in ACL: 'a b c'"),
        (
            one_queue("resources: {guaranteed: {vcore: 2}, max: {vcore: 1}}"),
            "guaranteed resource map[vcore:2000] is larger",
        ),
        (
            one_queue("resources: {max: {vcore: 1}}, queues: [{name: b, resources: {max: {vcore: 2}}}]"),
            "max resource of parent map[vcore:1000] is smaller than maximum resource map[vcore:2000] for queue b",
        ),
        (
            one_queue("resources: {guaranteed: {x/y: 1}}, queues: [{name: b, resources: {guaranteed: {x/y: 2}}}]"),
            "guaranteed resource of parent map[x/y:1] is smaller than sum",
        ),
        (
            one_queue("resources: {max: {vcore: 1}}, queues: [{name: b, resources: {guaranteed: {vcore: 2}}}]"),
            "max resource map[vcore:1000] is smaller than sum",
        ),
        (one_queue("maxapplications: 5, queues: [{name: b}]"), "parent maxApplications must be larger than child"),
        (
            one_queue("maxapplications: 5, limits: [{limit: l, users: [u], maxapplications: 6}]"),
            "invalid MaxApplications settings for limit l exceed",
        ),
        (one_queue("parent: false", "nodesortpolicy: {type: random}"), "undefined policy: random"),
        (one_queue("parent: false", "nodesortpolicy: {resourceweights: {x: -1}}"), "negative resource weight for x"),
        (one_queue("parent: false", "placementrules: [{name: 5a}]"), "invalid rule name 5a"),
        (one_queue("parent: false", "placementrules: [{name: fixed, value: b}]"), "references non-existing queues"),
        (one_queue("parent: true", "placementrules: [{name: fixed, value: a}]"), "which is not a leaf"),
        (
            one_queue("parent: false", "placementrules: [{name: fixed, value: a.b}]"),
            "the last queue (a) in the hierarchy",
        ),
        (one_queue("parent: false", "placementrules: [{name: user, filter: {type: x}}]"), "invalid rule filter type x"),
        (one_queue("parent: false", "placementrules: [{name: user, filter: {users: ['a b']}}]"), "filter user list"),
    ],
)
def test_what_yunikorn_would_refuse_is_refused_in_its_words(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        checks.load(text)
    assert words in str(refusal.value)


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "queues.yaml"
    path.write_text(text)
    return str(path)


def test_the_command_prints_what_can_be_applied_and_says_the_rest(tmp_path: Path, capsys: Said) -> None:
    assert main(["import", "yunikorn", "-f", written(tmp_path, QUEUES)]) == 0
    out, err = capsys.readouterr()
    objects = list(yaml.safe_load_all(out))
    assert objects[0]["kind"] == "QuotaTree"
    assert refusals(objects) == []
    assert err.startswith("note: ")


def test_the_config_map_that_holds_it_is_read_too(tmp_path: Path, capsys: Said) -> None:
    held = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": {"queues.yaml": QUEUES}})
    assert main(["import", "yunikorn", "-f", written(tmp_path, held)]) == 0
    assert len(list(yaml.safe_load_all(capsys.readouterr().out))) == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no quota of yunikorn in"),
        ("kind: ConfigMap\ndata: {}\n", "is a ConfigMap without queues.yaml"),
        ("kind: ElasticQuota\n", "field kind not found in type configs.SchedulerConfig"),
        (one_queue("limits: [{users: ['*', bob], maxapplications: 1}]"), "should not set no wildcard user bob after"),
    ],
)
def test_what_is_no_configuration_is_one_clear_line_and_nothing_else(
    tmp_path: Path, capsys: Said, text: str, words: str
) -> None:
    assert main(["import", "yunikorn", "-f", written(tmp_path, text)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1


NAMES = ["vcore", "memory", "mem"]
PEOPLE = st.lists(st.sampled_from(["ann", "bob", "cid", "*"]), min_size=1, max_size=3, unique=True).map(
    lambda names: sorted(names, key=lambda one: one == "*")
)


def amounts(least: int, most: int) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(NAMES), st.integers(least, most).map(str), min_size=1, max_size=3)


def limits(depth: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Mostly lower further down, so that many are taken, and not always, so that gaps are met."""
    one = st.fixed_dictionaries(
        {"users": PEOPLE, "maxresources": amounts(1, 7 - depth), "maxapplications": st.integers(0, 1)},
        optional={"groups": PEOPLE},
    )
    return st.lists(one, max_size=1)


def queues(depth: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    one = st.fixed_dictionaries(
        {
            "name": st.sampled_from(["a", "b", "C", "d_e"]),
            "limits": limits(depth),
            "queues": queues(depth + 1) if depth < 3 else st.just([]),
        },
        optional={
            "resources": st.fixed_dictionaries(
                {}, optional={"guaranteed": amounts(0, 1), "max": amounts(6 - depth, 9 - 2 * depth)}
            )
        },
    )
    return st.lists(one, min_size=int(depth < 3), max_size=2, unique_by=lambda each: each["name"].lower())


PARTITIONS = st.fixed_dictionaries({"queues": queues(1), "limits": limits(0)})


@given(PARTITIONS)
def test_whatever_yunikorn_takes_becomes_something_that_our_own_rules_take(partition: dict[str, Any]) -> None:
    try:
        config = checks.load(yaml.safe_dump({"partitions": [partition]}))
    except ConfigError:
        return
    result = conversion.convert(config)
    assert "would be refused" not in said(result)
    assert refusals(result.objects) == []
    assert fits_the_schema(result.objects)


WORDS = [
    "partitions", "name", "queues", "limits", "users", "groups", "maxresources", "maxapplications", "resources", "max",
    "guaranteed", "placementrules", "filter", "parent", "value", "properties", "nodesortpolicy", "<<", "*",
]  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["root", "5G"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(ANYTHING, st.text(max_size=20))
def test_whatever_is_given_is_a_configuration_or_refused(document: object, more: str) -> None:
    given_texts = [yaml.safe_dump({"partitions": document}), yaml.safe_dump(document) + more, more]
    for text in given_texts:
        with suppress(ConfigError):
            conversion.convert(checks.load(text))


@pytest.mark.parametrize("digits", [30, 5000])
def test_numbers_that_nobody_can_mean_are_refused(digits: int) -> None:
    number = "9" * digits
    for field in (f"maxapplications: {number}", f"resources: {{max: {{memory: {number}}}}}"):
        with pytest.raises(ConfigError, match=r"cannot unmarshal|overflow"):
            checks.load(one_queue(field))


def renamed(found: list[dict[str, Any]], prefix: str = "q") -> list[dict[str, Any]]:
    """The same queues, no two of one name."""
    return [
        {**one, "name": f"{prefix}{place}", "queues": renamed(one["queues"], f"{prefix}{place}-")}
        for place, one in enumerate(found)
    ]


def in_effect(objects: list[dict[str, Any]]) -> dict[tuple[str, str, str], Any]:
    """By leaf, kind and name: the least of all that bind somebody there, of each resource and of applications."""
    root, *others = sorted(objects, key=lambda one: one["kind"] != "QuotaTree")
    forest = Forest.of(map(stored_quota.read, others), [read_root(root)])
    levels = forest.levels("default")
    scheme = Scheme.of("default", levels.values())
    found: dict[tuple[str, str, str], Any] = {}
    for leaf in scheme.parents:
        for who in ("ann", "bob", "cid", "dan"):
            for kind, limits_of in (("user", scheme.user_limits(who)), ("group", scheme.group_limits(who))):
                least: dict[str, Any] = {}
                for node in scheme.path(leaf):
                    limit = limits_of.get(node)
                    bound: dict[str, Any] = dict(limit.resources) if limit else {}
                    is_counted = limit and limit.applications and limit.applications < 2**31 - 1
                    bound |= {"applications": limit.applications} if limit and is_counted else {}
                    for name, most in (*bound.items(), *levels[node].most.items()):
                        if name != "mem":  # which is no resource here
                            least[name] = min(most, least.get(name, most))
                found[leaf, kind, who] = least
    return found


@given(PARTITIONS)
def test_what_is_written_lower_is_in_effect_the_same(partition: dict[str, Any]) -> None:
    text = yaml.safe_dump({"partitions": [{**partition, "queues": renamed(partition["queues"])}]})
    try:
        config = checks.load(text)
    except ConfigError:
        return
    assert in_effect(conversion.convert(config).objects) == in_effect(list(as_ours({"yaml": text})))
