"""What users and groups use, as programs and people at terminals are told it, beside what is stored."""

import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localfed.federation import Federation
from localfed.guard import Guard
from tests.federation.manifests import DUPLICATED, deployment, policy
from tests.federation.people import tenant
from tests.federation.stage import Stage, eventually
from tests.federation.teams import Teams, sharing
from tests.federation.tokens import Tokens
from tests.federation.usage import Teller, telling, usage

pytestmark = pytest.mark.federation

LIMITS = [
    {"users": ["ann"], "maxResources": {"cpu": "5"}},
    {"groups": ["dev"], "maxApplications": 4},
    {"users": ["*"], "maxApplications": 3},
]


@pytest.fixture
def teams(federation: Federation) -> Iterator[Teams]:
    with sharing(federation, {"lab": "8", "shop": "8"}, total={"cpu": "16"}, limits=LIMITS) as found:
        yield found


def stored(teams: Teams) -> dict[str, tuple[str, int]]:
    """Of every binding of the tree its owner and the cpu, in thousandths, that it costs; worked out here."""
    found = {}
    for stage in teams.stages.values():
        for one in stage.federation.api.list("resourcebindings", stage.namespace):
            stamp = json.loads(one["metadata"]["annotations"]["quota.karmada.io/stamp"])
            spec = one["spec"]
            replicas = sum(share.get("replicas", 0) for share in spec.get("clusters") or ())
            cpu = spec["replicaRequirements"]["resourceRequest"]["cpu"]
            each = int(cpu.removesuffix("m")) if cpu.endswith("m") else int(cpu) * 1000
            found[f"{stage.namespace}/{one['metadata']['name']}"] = (stamp["owner"]["user"], replicas * each)
    return found


def test_what_is_told_is_what_is_stored(teams: Teams, stage: Stage, guard: Guard, tmp_path: Path) -> None:
    lab, shop = teams.stages["lab"], teams.stages["shop"]
    for place in (lab, shop):
        place.apply(policy(DUPLICATED))
    ann, bob = tenant(lab, "ann", "dev"), tenant(shop, "bob", "dev", "ops")
    also = tenant(shop, "ann", "dev")
    ann.apply(deployment("web", 1, "500m"))
    also.apply(deployment("db", 1, "1"))
    bob.apply(deployment("api", 2, "250m"))
    eventually(
        lambda: [cpu for _, cpu in sorted(stored(teams).values())] == [1000, 2000, 1000],
        what="all of it is released and scheduled to both members",
    )
    known = stored(teams)

    with telling(stage, teams.tree, guard, tmp_path / "log") as ask:
        tokens = ask.tokens
        _who_may_not_is_told_nothing(ask, tokens)
        users = json.loads(ask("users", tokens.reader)[1])
        groups = json.loads(ask("groups", tokens.reader)[1])
        assert json.loads(ask("user/bob", tokens.reader)[1]) == users[1]
        assert json.loads(ask("group/dev", tokens.reader)[1]) == groups[0]
        assert ask(f"user/{urllib.parse.quote('no/body', safe='')}", tokens.reader)[0] == 404

    assert [one["userName"] for one in users] == ["ann", "bob"]
    for one in users:
        own = {name: cpu for name, (user, cpu) in known.items() if user == one["userName"]}
        assert one["queues"]["queuename"] == "root"
        assert one["queues"]["resourceUsage"]["vcore"] == sum(own.values())
        assert one["queues"]["runningApplications"] == sorted(own)
        assert one["groups"] == dict.fromkeys(own, "dev")
        assert one["queues"]["maxApplications"] == (0 if one["userName"] == "ann" else 3)
        for child in one["queues"]["children"]:
            namespace = child["queuename"].removeprefix("root.").partition("/")[0]
            below = [cpu for name, cpu in own.items() if name.startswith(f"{namespace}/")]
            assert child["resourceUsage"]["vcore"] == sum(below)
    assert users[0]["queues"]["maxResources"] == {"vcore": 5000}
    (dev,) = groups
    assert (dev["groupName"], dev["users"]) == ("dev", ["ann", "bob"])
    assert dev["queues"]["resourceUsage"]["vcore"] == sum(cpu for _, cpu in known.values())
    assert dev["queues"]["maxApplications"] == 4
    _the_terminal_shows_the_same(teams, users, groups)


def _who_may_not_is_told_nothing(ask: Teller, tokens: Tokens) -> None:
    for path in ("users", "groups", "user/ann", "group/dev"):
        assert ask(path)[0] == 401
        assert ask(path, "made-up")[0] == 401
        status, said = ask(path, tokens.stranger)
        assert (status, "may not get /ws/v1/partition/" in said) == (403, True)
    # The right is for that tree alone, and whether there is another is not told.
    assert ask("users", tokens.reader, tree="default")[0] == 403
    assert ask("users", tokens.reader, tree="nowhere")[0] == 403


def _the_terminal_shows_the_same(teams: Teams, users: list[Any], groups: list[Any]) -> None:
    assert json.loads(usage(teams, "users", "-o", "json").stdout) == users
    assert json.loads(usage(teams, "groups", "-o", "json").stdout) == groups
    assert json.loads(usage(teams, "users", "bob", "-o", "json").stdout) == users[1]
    said = usage(teams, "users")
    lines = said.stdout.splitlines()
    assert lines[0].split() == ["USER", "QUEUE", "APPLICATIONS", "USED"]
    assert lines[1].split()[:3] == ["ann", "root", "2"]
    assert "cpu: 3/5" in lines[1]
    missing = usage(teams, "users", "nobody")
    assert (missing.returncode, missing.stderr) == (
        1,
        f"error: user nobody uses nothing of tree {teams.tree}, and no limit names it\n",
    )
