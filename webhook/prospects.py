"""What elastic quotas will do about a workload, for the early word (`advice`).

Under a tree nearly everything waits a moment, and what does not fit waits longer: there is something to say only where
it will not go soon. What the binding would be refused for is told as a refusal: a quota that it cannot have, and more
than its quota takes in. So is what could never fit, however long it waited.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from federation_quota import forecast
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey
from federation_quota.elastic import leaf as leaves
from federation_quota.elastic import prospect
from federation_quota.elastic.association import AssociationError
from federation_quota.elastic.forest import Forest
from federation_quota.elastic.prospect import ADMISSION, MAX, Room, Wish
from federation_quota.elastic.unit import Steps
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Ask, Books
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import FALSE, PREEMPTIBLE_LABEL, QUOTA_NAME_LABEL
from federation_quota.workload import Manifest
from webhook.leaves import Leaves


@dataclass(frozen=True, slots=True)
class Prospect:
    """What there is to say about a workload, if anything."""

    text: str = ""
    is_final: bool = False
    """It names a quota that it cannot have, or could never fit: not only wait."""
    asks: Mapping[str, Ask] = field(default_factory=dict)
    """What its leaf will be asked for at once, by domain: what it cannot take in it refuses."""
    leaf: str = ""
    """The quota that it will be under."""


NO_PROSPECT: Final = Prospect()


@dataclass(frozen=True, slots=True)
class Prospects:
    """Looks ahead in trees."""

    leaves: Leaves
    account: Callable[[str], Account | None]  # of a leaf, as fresh as it is known
    forest: Callable[[], Forest]
    observation: Observation
    mirror: BindingMirror
    is_warning_only: bool = False  # the break-glass for the whole system

    async def of(self, namespace: str, manifest: Manifest, plural: str, existing: Binding | None) -> Prospect:
        """What is to be said; nothing where it goes its way, or too little is known. KubeError as `Leaves.leaf_of`."""
        if not self.leaves.exist:
            return NO_PROSPECT
        labels = (manifest.get("metadata") or {}).get("labels") or {}
        current = existing.stamp.leaf if existing is not None and existing.clusters else None
        try:
            name = await self.leaves.leaf_of(namespace, labels.get(QUOTA_NAME_LABEL, ""), current)
        except AssociationError as problem:
            return Prospect(forecast.unassociated(str(problem)), is_final=True)
        account = self.account(name) if name else None
        view = self.observation.view
        if account is None or not account.is_active or account.fault or view.version < account.observed:
            return Prospect(leaf=name)
        here = existing if existing is not None and existing.stamp.leaf == name else None
        wish = Wish(
            forecast.demand(manifest, plural, forecast.copies(existing)),
            own=here.assigned if here else NOTHING,
            asked=here.demand.maximum(here.assigned) if here else NOTHING,
            is_preemptible=labels.get(PREEMPTIBLE_LABEL) != FALSE,
        )
        key = ObjectKey(namespace, forecast.binding_name(manifest["kind"], manifest["metadata"]["name"]))
        is_running = here is not None and bool(here.clusters)
        return self._judged(account, wish, _ask(account, key, wish, here), is_running=is_running)

    def _judged(self, account: Account, wish: Wish, ask: Ask, *, is_running: bool) -> Prospect:
        quota, books = leaves.kept(account).quota, Books(account, self.observation.view)
        room = Room(
            quota,
            leaves.published(account),
            quota.request,
            books.used,
            NOTHING if wish.is_preemptible else self._used_for_good(account.name),
        )
        short = prospect.refusals(quota, wish, books.used)
        short = short or prospect.shortages(room, wish, lambda request: self._expected(account.name, request))
        if not short:
            return Prospect(leaf=account.name)
        text = forecast.leaf_word(account.name, short, is_running=is_running, only_warns=self.is_warning_only)
        is_final = any(one.is_hopeless and one.limit in (MAX, ADMISSION) for one in short)
        return Prospect(text, is_final, {account.namespace: ask}, account.name)

    def _expected(self, name: str, request: Steps) -> Steps:
        forest = self.forest()
        quota = forest.quotas[name]
        root = forest.root(quota.tree)
        use = NOTHING
        if root is not None and not root.system.is_empty:
            system = {place for place, labels in forest.namespaces.items() if root.system.covers(place, labels)}
            use = Resources.sum(one.assigned for one in self.mirror.bindings.values() if one.key.namespace in system)
        return prospect.expected(forest, name, request, use)

    def _used_for_good(self, name: str) -> Resources:
        return Resources.sum(
            one.assigned for one in self.mirror.bindings.values() if one.stamp.leaf == name and not one.is_preemptible
        )


def _ask(account: Account, key: ObjectKey, wish: Wish, existing: Binding | None) -> Ask:
    """What the leaf is asked for when the binding comes, before it is given anything."""
    return Ask(
        "forecast",
        domain.name_in(account.namespace, key),
        leaves.asking(wish.wanted),
        leaves.asking(wish.asked),
        uid=None if existing else "not known yet",
        base=existing.version if existing else None,
    )
