from dataclasses import replace

import pytest

from federation_quota.binding import Binding, ClusterShare, ObjectKey, TemplateRef
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import Stamp

BINDING = Binding(
    key=ObjectKey("team-a", "web-deployment"),
    uid="u1",
    version=7,
    template=TemplateRef("apps/v1", "Deployment", "team-a", "web"),
    demand=Resources.parse({"cpu": "2", "memory": "1Gi"}),
    assigned=Resources.parse({"cpu": "1", "memory": "2Gi"}),
    clusters=(ClusterShare("m1", 1),),
)


def test_what_is_asked_and_what_is_there_are_both_paid_for() -> None:
    assert BINDING.charge == Resources.parse({"cpu": "2", "memory": "2Gi"})


def test_a_held_binding_costs_what_it_has() -> None:
    assert replace(BINDING, is_held=True).charge == BINDING.assigned
    assert replace(BINDING, is_held=True, assigned=NOTHING, clusters=()).charge == NOTHING


def test_what_others_suspended_costs_what_it_asks_for() -> None:
    assert replace(BINDING, is_suspended=True, assigned=NOTHING, clusters=()).charge == BINDING.demand


@pytest.mark.parametrize(("api_version", "group"), [("v1", ""), ("apps/v1", "apps")])
def test_a_template_knows_its_group(api_version: str, group: str) -> None:
    assert TemplateRef(api_version, "X", "a", "b").group == group


def test_a_sound_binding_is_not_changed_by_what_it_was() -> None:
    dearer = replace(BINDING, demand=Resources.parse({"cpu": "9"}))
    assert BINDING.at_least(dearer) is BINDING


def test_a_faulty_one_is_no_cheaper_than_it_was() -> None:
    faulty = replace(BINDING, version=8, fault="cpu: ?", demand=Resources.parse({"memory": "3Gi"}), stamp=Stamp("high"))
    known = faulty.at_least(BINDING)
    assert known.demand == Resources.parse({"cpu": "2", "memory": "3Gi"})
    assert known.assigned == BINDING.assigned
    assert (known.version, known.fault, known.stamp) == (8, "cpu: ?", Stamp("high"))


def test_one_of_which_only_the_name_is_known_is_taken_for_what_it_was_and_not_held() -> None:
    held = replace(BINDING, is_held=True, stamp=Stamp("high"))
    unknown = Binding(BINDING.key, "u1", 9, TemplateRef("", "", "team-a", ""), fault="spec: ?")
    known = unknown.at_least(held)
    assert known == replace(held, version=9, fault="spec: ?", is_held=False)
    assert known.charge == BINDING.charge


def test_another_object_of_that_name_says_nothing() -> None:
    faulty = replace(BINDING, uid="u2", fault="?", demand=NOTHING)
    assert faulty.at_least(BINDING) is faulty
