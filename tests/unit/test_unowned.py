from dataclasses import replace

from controllers.unowned import Unowned
from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.stamp import Owner, Stamp

NOBODYS = Binding(
    ObjectKey("a", "web"),
    "u",
    1,
    TemplateRef("apps/v1", "Deployment", "a", "web"),
    replicas=2,
    stamp=Stamp(leaf="team"),
)


def test_workloads_under_a_leaf_without_an_owner_are_counted_while_they_are_there() -> None:
    counted = Unowned()
    adopted = replace(NOBODYS, stamp=replace(NOBODYS.stamp, owner=Owner("ann")))
    outside = replace(NOBODYS, stamp=Stamp())
    config_map = replace(NOBODYS, replicas=0)
    for number, (before, after) in {
        1: (None, NOBODYS),
        2: (None, NOBODYS),
    }.items():
        counted.binding_changed(before, after)
        assert counted.count == number
    for other in (adopted, outside, config_map):
        counted.binding_changed(None, other)
        counted.binding_changed(other, None)
        assert counted.count == 2
    counted.binding_changed(NOBODYS, adopted)
    assert counted.count == 1
    counted.binding_changed(NOBODYS, None)
    assert counted.count == 0
