import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.field_error import ErrorKind, FieldError, at_key, not_supported, summarise
from federation_quota.validation import validate, validate_status, warnings


def quota(spec: Any = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 # what a client sends has any form
    return {"metadata": {"name": "q", "namespace": "team"}, "spec": spec or {}, **more}


def hard(**limits: Any) -> dict[str, Any]:  # noqa: ANN401 # as above
    return quota({"hard": limits})


def scoped(limits: dict[str, Any], **expression: Any) -> dict[str, Any]:  # noqa: ANN401 # as above
    expression = {"scopeName": "PriorityClass", **(expression or {"operator": "Exists"})}
    return quota({"hard": limits, "scopeSelector": {"matchExpressions": [expression]}})


def messages(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(error) for error in validate(new, old)]


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "pods",
        "services",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "hugepages-2Mi",
        "requests.hugepages-1Gi",
        "count/deployments.apps",
        "count/services",
        "count/widgets.example.com",
        "nvidia.com/gpu",
        "requests.nvidia.com/gpu",
        "nvidia.com/mig-1g.5gb",
        "quota.karmada.io/gpu-memory",
        "requests.quota.karmada.io/gpu-memory",
        "nos.nebuly.com/gpu-memory",
        "a" * 63 + ".example/" + "b" * 63,
    ],
)
def test_names_that_a_quota_may_limit(name: str) -> None:
    assert messages(hard(**{name: "5"})) == []


STANDARD = "must be a standard resource for quota"
QUALIFIED = "must be a qualified name"
LIMITS = "carries what its pods request, not their limits: limit requests."
STORAGE = "does not say how much storage a claim asks for"
SERVICE_TYPE = "does not say of which type a Service is: limit services"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("foo", STANDARD),
        ("CPU", STANDARD),
        ("requests.pods", STANDARD),
        ("requests.services", STANDARD),
        ("requests.", QUALIFIED),
        ("hugepages-", QUALIFIED),
        ("limits.cpu", LIMITS + "cpu"),
        ("limits.memory", LIMITS + "memory"),
        ("limits.ephemeral-storage", LIMITS + "ephemeral-storage"),
        ("limits.nvidia.com/gpu", LIMITS + "nvidia.com/gpu"),
        ("storage", STORAGE),
        ("requests.storage", STORAGE),
        ("gold.storageclass.storage.k8s.io/requests.storage", "which storage class a claim is for"),
        ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", "which storage class a claim is for"),
        ("gpu.deviceclass.resource.k8s.io/devices", "which devices are claimed"),
        ("services.nodeports", SERVICE_TYPE),
        ("services.loadbalancers", SERVICE_TYPE),
        ("", QUALIFIED),
        ("a b", QUALIFIED),
        ("cpu\n", QUALIFIED),
        ("-cpu", QUALIFIED),
        ("/gpu", QUALIFIED),
        ("nvidia.com/", QUALIFIED),
        ("nvidia.com/gpu/more", QUALIFIED),
        ("Nvidia.com/gpu", QUALIFIED),
        ("nvidia.com/" + "g" * 64, QUALIFIED),
        ("a." * 127 + "/gpu", QUALIFIED),
        ("\uff43pu", QUALIFIED),
        ("count/Deployments.apps", "must be count/<resource>.<group> in lower case"),
        ("count/deployments_apps", "must be count/<resource>.<group> in lower case"),
        ("requests.count/services", "must be count/<resource>.<group> in lower case"),
        ("quota.karmada.io/gpu-memroy", "quota.karmada.io/gpu-memory is the only name with that prefix"),
    ],
)
def test_names_that_no_quota_can_limit_are_refused_with_the_reason(name: str, why: str) -> None:
    (error,) = validate(hard(**{name: "5"}))
    assert error.path == at_key("spec.hard", name)
    assert error.kind is ErrorKind.INVALID
    assert error.value == name
    assert why in error.detail


def test_the_shape_of_a_message_is_kubernetes_own() -> None:
    assert messages(hard(foo="5")) == ['spec.hard[foo]: Invalid value: "foo": must be a standard resource for quota']
    assert messages(hard(cpu="-1")) == ['spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0']
    assert messages(hard(pods="1500m")) == ['spec.hard[pods]: Invalid value: "1500m": must be an integer']


@pytest.mark.parametrize("amount", [0, 5, "0", "1.5", "500m", "1e3", "20Gi", ".5", "100n", "+3", "-0"])
def test_amounts_that_are_quantities(amount: str | int) -> None:
    assert messages(hard(cpu=amount)) == []


@pytest.mark.parametrize(
    "amount",
    [
        "",
        "abc",
        "NaN",
        "1_000",
        " 5 ",
        "5\n",
        "1e1.5",
        "1ki",
        "٣",
        "1e9999",
        None,
        1.5,
        float("nan"),
        True,
        [],
        {},
        ["1"],
    ],
)
def test_amounts_that_are_none(amount: object) -> None:
    (error,) = validate(hard(cpu=amount))
    assert error.path == "spec.hard[cpu]"
    assert "quantity" in error.detail


@pytest.mark.parametrize("amount", [-1, "-1", "-1n", "-0.5", "-1Gi"])
def test_amounts_below_zero(amount: str | int) -> None:
    (error,) = validate(hard(memory=amount))
    assert error.detail == "must be greater than or equal to 0"


@pytest.mark.parametrize(
    "name", ["pods", "services", "count/deployments.apps", "nvidia.com/gpu", "requests.nvidia.com/gpu"]
)
@pytest.mark.parametrize(
    ("amount", "is_whole"), [("2", True), ("2000m", True), ("2k", True), ("2.5", False), ("1n", False)]
)
def test_what_is_counted_is_limited_in_whole_numbers(name: str, amount: str, is_whole: bool) -> None:
    errors = validate(hard(**{name: amount}))
    assert [error.detail for error in errors] == ([] if is_whole else ["must be an integer"])


@pytest.mark.parametrize("name", ["cpu", "memory", "requests.cpu", "ephemeral-storage", "hugepages-2Mi"])
def test_what_is_measured_may_be_a_fraction(name: str) -> None:
    assert messages(hard(**{name: "2.5"})) == []


def test_everything_wrong_is_said_at_once_in_order() -> None:
    paths = [error.path for error in validate(hard(zoo="1", cpu="x", pods="-1", foo="1"))]
    assert paths == ["spec.hard[cpu]", "spec.hard[foo]", "spec.hard[pods]", "spec.hard[zoo]"]


# Scopes


@pytest.mark.parametrize(
    "name",
    ["pods", "cpu", "memory", "requests.cpu", "requests.memory", "nvidia.com/gpu", "requests.nvidia.com/gpu",
     "quota.karmada.io/gpu-memory"],
)  # fmt: skip
def test_limits_that_may_have_a_scope(name: str) -> None:
    assert messages(scoped({name: "1"})) == []
    assert messages(quota({"hard": {name: "1"}, "scopes": ["PriorityClass"]})) == []


@pytest.mark.parametrize(
    "name",
    ["ephemeral-storage", "requests.ephemeral-storage", "hugepages-2Mi", "services", "secrets", "configmaps",
     "persistentvolumeclaims", "count/deployments.apps", "count/pods"],
)  # fmt: skip
def test_limits_that_may_not(name: str) -> None:
    for new in (scoped({name: "1"}), quota({"hard": {name: "1"}, "scopes": ["PriorityClass"]})):
        (error,) = validate(new)
        assert str(error).startswith(
            f'spec.hard[{name}]: Invalid value: "{name}": unsupported scope applied to resource: '
        )


OTHER_SCOPES = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
    "Nonsense",
    "priorityclass",
    "",
]


@pytest.mark.parametrize("name", OTHER_SCOPES)
def test_other_scopes_are_refused_with_the_reason(name: str) -> None:
    (bare,) = messages(quota({"scopes": ["PriorityClass", name]}))
    assert bare.startswith(f'spec.scopes[1]: Invalid value: "{name}": unsupported scope: of a ResourceBinding only')
    (selected,) = messages(scoped({}, scopeName=name, operator="Exists"))
    path = "spec.scopeSelector.matchExpressions[0].scopeName"
    assert selected.startswith(f'{path}: Invalid value: "{name}": unsupported scope: of a ResourceBinding only')


@pytest.mark.parametrize("operator", ["In", "NotIn"])
@pytest.mark.parametrize("values", [{}, {"values": []}, {"values": None}])
def test_in_and_not_in_need_values(operator: str, values: dict[str, Any]) -> None:
    assert messages(scoped({}, operator=operator, **values)) == [
        "spec.scopeSelector.matchExpressions[0].values: Required value: "
        "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
    ]


@pytest.mark.parametrize("operator", ["Exists", "DoesNotExist"])
def test_exists_and_does_not_exist_take_none(operator: str) -> None:
    assert messages(scoped({}, operator=operator, values=[])) == []
    assert messages(scoped({}, operator=operator, values=["high"])) == [
        'spec.scopeSelector.matchExpressions[0].values: Invalid value: ["high"]: '
        "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"
    ]


@pytest.mark.parametrize("operator", ["Gt", "in", "", None, 5])
def test_an_operator_that_is_none(operator: object) -> None:
    (error,) = messages(scoped({}, operator=operator, values=["high"]))
    assert error == (
        f"spec.scopeSelector.matchExpressions[0].operator: Unsupported value: {json.dumps(operator)}: "
        'supported values: "In", "NotIn", "Exists", "DoesNotExist"'
    )


@pytest.mark.parametrize("value", ["", "a b", "-a", "a" * 64, "a\n", 5, None])
def test_values_are_names_that_fit_a_label(value: object) -> None:
    (error,) = validate(scoped({}, operator="In", values=["high", value]))
    assert error.path == "spec.scopeSelector.matchExpressions[0].values[1]"
    assert "must be the name of a priority class" in error.detail


# Updates


def test_scopes_cannot_change_but_may_be_written_otherwise() -> None:
    with_scope = quota({"scopes": ["PriorityClass"]})
    assert messages(quota({"scopes": ["PriorityClass", "PriorityClass"]}), with_scope) == []
    assert messages(quota({"hard": {}, "scopes": []}), quota()) == []
    assert messages(quota({"hard": {"cpu": 1}}), with_scope) == ["spec.scopes: Invalid value: null: field is immutable"]
    assert messages(with_scope, quota()) == ['spec.scopes: Invalid value: ["PriorityClass"]: field is immutable']
    assert messages(with_scope, {}) == ['spec.scopes: Invalid value: ["PriorityClass"]: field is immutable']


def test_selector_and_limits_may_change() -> None:
    assert messages(scoped({"cpu": "1"}, operator="In", values=["high"]), hard(cpu="2", services="1")) == []


def test_what_was_let_in_once_is_not_judged_again_until_its_spec_changes() -> None:
    old = hard(foo="-1")
    labelled = {**old, "metadata": {"name": "q", "labels": {"team": "a"}, "finalizers": []}}
    assert messages(labelled, old) == []
    assert len(messages(hard(foo="-2"), old)) == 2


# Objects in no shape at all


@pytest.mark.parametrize(
    ("new", "path"),
    [
        (quota([1]), "spec"),
        (quota("spec"), "spec"),
        (quota({"hard": []}), "spec.hard"),
        (quota({"hard": ["cpu"]}), "spec.hard"),
        (quota({"scopes": "PriorityClass"}), "spec.scopes"),
        (quota({"scopes": [{}]}), "spec.scopes[0]"),
        (quota({"scopeSelector": True}), "spec.scopeSelector"),
        (quota({"scopeSelector": {"matchExpressions": {}}}), "spec.scopeSelector.matchExpressions"),
        (quota({"scopeSelector": {"matchExpressions": ["x"]}}), "spec.scopeSelector.matchExpressions[0]"),
        (scoped({}, operator="In", values="high"), "spec.scopeSelector.matchExpressions[0].values"),
        ({"metadata": {"name": "Not A Name"}}, "metadata.name"),
        ({"metadata": {"name": "a" * 254}}, "metadata.name"),
        ({"metadata": {"name": 5}}, "metadata.name"),
    ],
)
def test_what_has_no_shape_is_refused_at_its_path(new: dict[str, Any], path: str) -> None:
    assert [error.path for error in validate(new)] == [path]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "hard": st.dictionaries(st.sampled_from(["cpu", "pods", "limits.cpu", "x/y", "\ud800"]), JSON, max_size=3)
        | JSON,
        "scopes": st.lists(st.sampled_from(["PriorityClass", "BestEffort"]) | JSON, max_size=2) | JSON,
        "scopeSelector": st.fixed_dictionaries(
            {
                "matchExpressions": st.lists(
                    st.fixed_dictionaries(
                        {},
                        optional={
                            "scopeName": st.just("PriorityClass") | JSON,
                            "operator": st.sampled_from(["In", "NotIn", "Exists"]) | JSON,
                            "values": st.lists(st.sampled_from(["a", "b"]) | JSON, max_size=2) | JSON,
                        },
                    ),
                    max_size=2,
                )
            }
        )
        | JSON,
    },
)
OBJECTS = st.fixed_dictionaries({}, optional={"metadata": JSON, "spec": LIKELY | JSON, "status": JSON})


@given(OBJECTS, st.none() | OBJECTS)
def test_no_object_whatever_is_a_crash_and_every_answer_can_be_sent(
    new: dict[str, Any], old: dict[str, Any] | None
) -> None:
    for error in [*validate(new, old), *validate_status(new)]:
        str(error).encode()
        assert "\n" not in str(error)
    if not validate(new):
        "".join(warnings(new, old)).encode()


def test_an_answer_is_short_however_large_the_object() -> None:
    huge = "x" * 1_000_000
    new = quota({"hard": {huge: huge, **{f"n{i}": "1" for i in range(10_000)}}, "scopes": [huge]})
    errors = validate(new)
    assert len(summarise(errors)) < 20_000
    assert max(len(str(error)) for error in errors) < 2_000


# Status


def test_a_status_may_hold_what_it_follows() -> None:
    status = {"hard": {"cpu": "10", "limits.old": 1}, "used": {"cpu": "0", "limits.old": "1.5"}, "shape": 5}
    assert validate_status({"status": status}) == []
    assert validate_status({}) == []


@pytest.mark.parametrize("field", ["hard", "used"])
def test_a_status_with_amounts_that_are_none(field: str) -> None:
    errors = validate_status({"status": {field: {"cpu": "-1", "memory": "x", "a b": "1"}}})
    assert [error.path for error in errors] == [f"status.{field}[{name}]" for name in ("a b", "cpu", "memory")]
    assert [error.path for error in validate_status({"status": {field: "x"}})] == [f"status.{field}"]
    assert [error.path for error in validate_status({"status": "x"})] == ["status"]


# Warnings


def test_an_ordinary_quota_gets_no_warning() -> None:
    new = hard(**{"cpu": "10", "requests.cpu": "10", "count/deployments.apps": 5, "count/services": 5})
    assert warnings(new) == []
    assert warnings(new, hard(cpu="5")) == []


@pytest.mark.parametrize(
    ("new", "warning"),
    [
        (quota(), "spec.hard is empty: this quota limits nothing"),
        (
            hard(**{"cpu": "10", "requests.cpu": "5"}),
            "spec.hard[cpu]: cpu and requests.cpu are one resource, and the lower limit decides: 5",
        ),
        (
            hard(**{"services": 1, "count/services": 2}),
            "spec.hard[count/services]: count/services and services are one resource, and the lower limit decides: 1",
        ),
        (
            hard(**{"count/deployments": 1}),
            "spec.hard[count/deployments]: Kubernetes' core group has no deployments; "
            "name the group, as in count/deployments.apps",
        ),
        (
            quota({"hard": {"cpu": 1}, "scopes": ["PriorityClass"], "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}}),
            "spec.scopeSelector selects nothing: no priority class satisfies all of its expressions",
        ),
    ],
)  # fmt: skip
def test_what_is_right_but_hardly_meant_is_said(new: dict[str, Any], warning: str) -> None:
    assert warnings(new) == [warning]
    assert warnings(new, new) == []


def test_a_limit_set_below_what_is_used_is_said_once() -> None:
    old = quota({"hard": {"cpu": "10", "memory": "1Gi"}}, status={"used": {"cpu": "8", "memory": "2Gi"}})
    assert warnings(hard(cpu="5", memory="1Gi"), old) == [
        "spec.hard[cpu]: 8 used already, above the limit of 5; what runs is not stopped"
    ]
    assert warnings(hard(cpu="8", memory="1Gi"), old) == []
    broken = quota({"hard": {"cpu": "x"}}, status={"used": {"cpu": "y"}})
    assert warnings(hard(cpu="5"), broken) == []


# What an error says


def test_causes_are_for_machines() -> None:
    assert [error.to_cause() for error in validate(hard(foo="1"))] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "foo": must be a standard resource for quota',
            "field": "spec.hard[foo]",
        }
    ]
    assert not_supported("a", "x", ["y"]).to_cause()["reason"] == "FieldValueNotSupported"


def test_a_path_is_one_line_of_text_whatever_the_key() -> None:
    assert at_key("spec.hard", "nvidia.com/gpu") == "spec.hard[nvidia.com/gpu]"
    assert at_key("spec.hard", "a\nb") == r'spec.hard["a\nb"]'
    assert at_key("spec.hard", "\ud800") == r'spec.hard["\ud800"]'


def test_errors_are_joined_as_the_api_server_joins_them() -> None:
    required = FieldError("a", ErrorKind.REQUIRED, None, "must be there")
    forbidden = FieldError("b", ErrorKind.FORBIDDEN, 5, "must not")
    assert summarise([required]) == "a: Required value: must be there"
    assert summarise([required, forbidden]) == "[a: Required value: must be there, b: Forbidden: must not]"
