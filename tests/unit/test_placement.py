"""What bindings give to each cluster, as running sums."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.binding import Binding, ClusterShare, Component, ObjectKey, TemplateRef
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.lens import Lens
from federation_quota.placement import Placements, shares
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import EVERYTHING
from federation_quota.stamp import Stamp

POD = Resources.parse({"pods": 1})
WEB = Binding(
    key=ObjectKey("shop", "web-deployment"),
    uid="u",
    version=1,
    template=TemplateRef("apps/v1", "Deployment", "shop", "web"),
    assigned=POD,
    request=Resources.parse({"cpu": "100m", "nvidia.com/gpu": 1}),
    clusters=(ClusterShare("m1", 2), ClusterShare("m2", 1)),
)


def test_a_cluster_has_its_replicas_and_what_goes_with_them() -> None:
    assert shares(WEB) == {
        "m1": Resources.parse({"cpu": "200m", "pods": 2, "nvidia.com/gpu": 2, "quota.karmada.io/gpu-memory": 64}),
        "m2": Resources.parse({"cpu": "100m", "pods": 1, "nvidia.com/gpu": 1, "quota.karmada.io/gpu-memory": 32}),
    }


def test_what_is_being_evicted_is_accounted_for_where_it_still_runs() -> None:
    moving = replace(WEB, clusters=(ClusterShare("m1", 3),), evicted=(ClusterShare("m2", 2),))
    assert shares(moving)["m2"]["pods"] == Resources.parse({"pods": 2})["pods"]


def test_a_job_that_has_finished_has_nothing_anywhere() -> None:
    assert shares(replace(WEB, assigned=Resources.parse({"count/jobs.batch": 1}))) == {}


def test_components_are_one_set_per_cluster_or_what_the_cluster_says() -> None:
    several = replace(
        WEB,
        request=NOTHING,
        components=(
            Component("manager", 1, Resources.parse({"cpu": 1})),
            Component("worker", 3, Resources.parse({"cpu": "100m"})),
        ),
        clusters=(ClusterShare("m1", 0), ClusterShare("m2", 0, (("worker", 2),))),
    )
    assert shares(several) == {
        "m1": Resources.parse({"cpu": "1300m", "pods": 4}),
        "m2": Resources.parse({"cpu": "200m", "pods": 2}),
    }


CLUSTERS = ("m1", "m2", "m3")
SHARES = st.lists(st.builds(ClusterShare, st.sampled_from(CLUSTERS), st.integers(0, 3)), max_size=3).map(tuple)
BINDINGS = st.builds(
    lambda name, clusters, evicted, cls, cpu: replace(
        WEB,
        key=ObjectKey("shop", name),
        clusters=clusters,
        evicted=evicted,
        stamp=Stamp(priority_class=cls),
        request=Resources.parse({"cpu": cpu}),
    ),
    st.sampled_from(["a", "b"]),
    SHARES,
    SHARES,
    st.sampled_from(["", "gold"]),
    st.integers(0, 2),
)


@given(st.lists(st.tuples(BINDINGS, st.booleans()), max_size=20))
def test_the_sums_are_those_of_the_bindings_there(changes: list[tuple[Binding, bool]]) -> None:
    placements = Placements()
    there: dict[ObjectKey, Binding] = {}
    lens = Lens(EVERYTHING, frozenset({"cpu", "pods"}))
    for binding, is_deleted in changes:
        placements.change(there.pop(binding.key, None), None if is_deleted else binding)
        if not is_deleted:
            there[binding.key] = binding
        for cluster in CLUSTERS:
            expected = NOTHING
            for one in there.values():
                expected += lens.cost(Claim(shares(one).get(cluster, NOTHING), one.stamp.priority_class))
            assert placements.bound(cluster, "shop", lens) == expected
