"""YuniKorn's queue configurations: which of them are right, and what is said of the others.

Each is asked about twice. The importer is as strict as YuniKorn, and says what it says, word for word. Our own rules
judge the same limits on our own objects, one after the other as they would be applied, by rule and in our words; where
YuniKorn leaves a gap they do not, and what the importer makes of it passes them all the same.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from federation_quota.elastic import quota as quotas
from federation_quota.elastic import topology
from federation_quota.elastic.forest import Forest, read_root
from federation_quota.elastic.validation import validate_quota, validate_root
from federation_quota.yunikorn import amount, checks, config, conversion
from federation_quota.yunikorn.config import Config, Queue
from federation_quota.yunikorn.document import ConfigError
from tests.conformance.overrides import Override
from tests.conformance.vectors import Case, case_ids, load_sections

VECTORS = load_sections("limits_config")["vectors"]
KNOWN = {"id", "source", "origin", "valid", "error", "error_contains", "yaml", "notes", "divergence"}

A_DECODERS = Override(
    reason="The words of Go's YAML decoder, and of a Go structure, with lines and types in them. Expected instead: the "
    "part that is about the configuration.",
    applies_to=lambda case: str(case["error"]).startswith(("yaml:", "empty user and group lists")),
)
DIVERGENCE = Override(
    reason="YuniKorn's own defect, marked as such. Expected instead: our own rules, which have the last word.",
    applies_to=lambda case: "divergence" in case,
)


@pytest.mark.parametrize("case", VECTORS, ids=case_ids(VECTORS, "id"))
def test_the_importer_says_what_yunikorn_says(case: Case) -> None:
    understood(case)
    found, said = loaded(case["yaml"])
    if not DIVERGENCE.applies_to(case):
        assert (said is None) is case["valid"], said
        assert said is None or case["error_contains"] in said
        assert said == case["error"] or A_DECODERS.applies_to(case)
    if found is not None:
        imported = conversion.convert(found)
        assert [str(note) for note in imported.notes if "would be refused" in str(note)] == []
        assert refusals(imported.objects) == []


def loaded(text: str) -> tuple[Config | None, str | None]:
    """A configuration, or why it is none."""
    try:
        return checks.load(text), None
    except ConfigError as error:
        return None, str(error)


@pytest.mark.parametrize("case", VECTORS, ids=case_ids(VECTORS, "id"))
def test_our_own_rules_say_the_same_of_limits(case: Case) -> None:
    understood(case)
    if not case["valid"] and any(re.search(pattern, case["error"]) for pattern in ONLY_THERE):
        return  # the importer's business alone, which is tested above
    said = refusals(list(as_ours(case)))
    if case["valid"] and not A_GAP.applies_to(case):
        assert said == []
        return
    message = "is greater than" if case["valid"] else case["error"]
    about = [(path, word) for pattern, path, word in RULES if re.search(pattern, message)]
    if not about:
        pytest.fail(f"no rule that is known here: {message}")
    assert any(re.search(path, one) and word in one for path, word in about for one in said), said


def understood(case: Case) -> None:
    if case.keys() - KNOWN or not isinstance(case.get("valid"), bool):
        pytest.fail(f"this case has no shape that is known here: {sorted(case)}")


# What the peer's messages are about: the field that ours names, and a word of it.
RULES: tuple[tuple[str, str, str], ...] = (
    (r"^empty user and group lists", r"spec\.limits\[\d+\]: Required", "users or groups"),
    (r"^invalid limit user name", r"\.users\[", "must be a user"),
    (r"^invalid limit group name", r"\.groups\[", "must be a group"),
    (r"^duplicated user name", r"\.users\[", "already"),
    (r"^duplicated group name", r"\.groups\[", "already"),
    (r"^should not set no wildcard user", r"\.users\[", "comes after '*'"),
    (r"^should not set no wildcard group", r"\.groups\[", "comes after '*'"),
    (r"^should not specify only one group limit", r"\.groups\[", "at least one group before"),
    (r"^MaxResources should be greater than zero", r"\.maxResources", "must allow some"),
    (r"^invalid resource combination", r"spec\.limits\[\d+\]", "must limit something"),
    (r"^invalid MaxResources settings", r"\.maxResources\[", "spec.max"),
    (r"^(user|group) \S+ max resource|^is greater", r"\.maxResources\[", "no more than"),
    (r"^(user|group) \S+ max applications|^is greater", r"\.maxApplications", "no more than"),
    (r"^(is greater)", r"\.maxResources\[", "all that"),
    (r"^guaranteed resource \S+ is larger than maximum", r"spec\.min\[", "above max"),
    (r"^guaranteed resource of parent", r"spec\.min\[", "mins below"),
)
# Of what there is nothing here: YuniKorn's own way to write, its partitions, and the number of applications of a queue.
ONLY_THERE = (
    r"^yaml:",
    r"invalid quantity|invalid suffix",
    r"^duplicate partition|^queue config is not set|^top queue name|^root queue must not|^partition limits and root",
    r"^multiple spaces found in ACL|^invalid (queue|child) name|^duplicate child name",
    r"^invalid MaxApplications settings|^parent max(Applications|RunningApps)|either undefined or zero",
    r"^max resource ",  # a max may be above the parent's here
    r"placement rule|rule (name|filter)|fully qualified 'fixed' rule|policy|resource weight",
)


def as_ours(case: Case) -> Iterator[Case]:
    """The objects with the limits as they stand in a configuration, whether or not those are right."""
    for partition in config.decode(case["yaml"]).partitions:
        root = partition.root
        yield {"kind": "QuotaTree", "metadata": {"name": "default"}, "spec": {"limits": limits(root)}}
        for child in root.queues:
            yield from below(child, None)


def below(queue: Queue, parent: str | None) -> Iterator[Case]:
    spec: Case = {"min": amounts(queue.guaranteed), "max": amounts(queue.most), "limits": limits(queue)}
    if parent is not None:
        spec["parent"] = parent
    if not queue.queues and not queue.is_parent:
        spec["offeredTo"] = {"namespaceSelector": {}}
    yield {"kind": "CompositeElasticQuota", "metadata": {"name": queue.name}, "spec": spec}
    for child in queue.queues:
        yield from below(child, queue.name)


def limits(queue: Queue) -> list[Case]:
    return [
        {
            "users": list(one.users),
            "groups": list(one.groups),
            "maxResources": amounts(one.resources),
            **({"maxApplications": one.applications} if one.applications else {}),
        }
        for one in queue.limits
    ]


def amounts(written: Any) -> dict[str, str]:  # noqa: ANN401 # a map, or nothing
    return {"cpu" if name == "vcore" else name: text for name, text in (written or {}).items()}


def refusals(objects: list[Case]) -> list[str]:
    """What is said against them, applied one after the other, what was refused left out."""
    said: list[str] = []
    forest = Forest.of()
    for one in objects:
        is_root = one["kind"] == "QuotaTree"
        errors = validate_root(one) if is_root else validate_quota(one)
        if not errors and is_root:
            root = read_root(one)
            errors = topology.check_root(Forest(forest.quotas, forest.roots), root)
            forest = Forest(forest.quotas, {**forest.roots, root.name: root})
        elif not errors:
            quota = quotas.read(one)
            errors = topology.check_quota(forest, quota)
            forest = forest.with_quota(quota)
        said += [str(error) for error in errors]
    return said


def allows_more_below(case: Case) -> bool:
    """Whether something binds somebody on a queue above that a limit is higher than, whatever level it is on."""

    def worse(queue: Queue, above: list[Queue]) -> bool:
        for one in queue.limits:
            own = amount.read(one.resources)
            for kind, names in (("users", one.users), ("groups", one.groups)):
                for name in names:
                    for upper in above:
                        most = amount.read(upper.most)
                        if not amount.fits(own, most):
                            return True
                        entry = next((each for each in upper.limits if name in getattr(each, kind)), None)
                        entry = entry or next((each for each in upper.limits if "*" in getattr(each, kind)), None)
                        if entry is None:
                            continue
                        if not amount.fits(own, amount.read(entry.resources)):
                            return True
                        if entry.applications and not 0 < one.applications <= entry.applications:
                            return True
        return any(worse(child, [*above, queue]) for child in queue.queues)

    return any(worse(partition.root, []) for partition in config.decode(case["yaml"]).partitions)


A_GAP = Override(
    reason="YuniKorn compares with what it carried down, and loses some of it: who is named below a wildcard has only "
    "their own entry from there on. Here all levels above count. Expected instead: it is refused as it stands, and the "
    "importer writes it as low as it is in effect.",
    applies_to=lambda case: bool(case["valid"]) and allows_more_below(case),
)


def test_what_is_wrong_in_a_vector_is_noticed() -> None:
    """Another verdict, and another reason, fail on either side."""
    for case in VECTORS:
        if DIVERGENCE.applies_to(case):
            continue
        if case["valid"]:
            opposite = {**case, "valid": False, "error": "user a max resource", "error_contains": "max resource"}
        else:
            opposite = {**case, "valid": True, "error": None, "error_contains": None}
        with pytest.raises(AssertionError):
            test_the_importer_says_what_yunikorn_says(opposite)
        if not case["valid"]:
            with pytest.raises(AssertionError):
                test_the_importer_says_what_yunikorn_says({**case, "error_contains": "astrology"})
        if not case["valid"] and any(re.search(pattern, case["error"]) for pattern in ONLY_THERE):
            continue
        if not A_GAP.applies_to(case) and not A_GAP.applies_to(opposite):  # of those the importer alone can tell
            with pytest.raises(AssertionError):
                test_our_own_rules_say_the_same_of_limits(opposite)


def test_a_refusal_by_another_rule_is_noticed() -> None:
    case = next(one for one in VECTORS if str(one["error"]).startswith("invalid limit user name"))
    with pytest.raises(AssertionError):
        test_our_own_rules_say_the_same_of_limits({**case, "error": "MaxResources should be greater than zero in ''"})


@pytest.mark.parametrize(
    "wrong",
    [{"astrology": 1}, {"valid": "yes"}, {"valid": False, "error": "the stars", "error_contains": "stars"}],
    ids=["an unknown field", "no verdict", "a rule of nobody's"],
)
def test_what_nobody_knows_fails(wrong: Case) -> None:
    case = {**deepcopy(VECTORS[0]), **wrong}
    with pytest.raises((pytest.fail.Exception, AssertionError)):
        test_our_own_rules_say_the_same_of_limits(case)
