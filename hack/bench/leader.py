"""The controllers' own parts around a view of all bindings, put together as `controllers` does it."""

from controllers.accounts import AccountController
from controllers.auditing import AuditedBindings, AuditedQuotas, Audits
from controllers.members import Members
from controllers.reporting import Reporting
from controllers.waking import WakingController
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube.client import Client
from federation_quota.kube.events import Recorder
from federation_quota.kube.quotas import QuotaStore
from federation_quota.kube.workqueue import WorkQueue
from federation_quota.pace import Pace
from federation_quota.placement import Placements


class Leader:
    """What hears of bindings and quotas, and what brings a quota's status in line."""

    def __init__(self, client: Client, observation: Observation, store: QuotaStore) -> None:
        audits = Audits()
        reporting = Reporting(Recorder(client, component="bench", instance="bench"))
        self._queue: WorkQueue[ObjectKey] = WorkQueue("accounts")
        self._placements = Placements()
        self.bindings = AuditedBindings(observation, self._changed, audits)
        self._waking = WakingController(observation, self.bindings, store, reporting)
        self.quotas = AuditedQuotas(self._waking.quota_stored, lambda _namespace, _name, _version: None, audits.quotas)
        members = Members(client, self._placements, lambda _names: None, lambda _name: None)
        # Every change is written, though in busy times the product would put many into one.
        at_once = Pace(seconds=0.0, per_second=1e9, burst=1e9, longest_seconds=0.0)
        self.accounts = AccountController(self.quotas, self.bindings, observation, store, members, reporting, at_once)

    def _changed(self, before: Binding | None, after: Binding | None) -> None:
        self._placements.change(before, after)
        self._waking.binding_changed(before, after)
        binding = after or before
        if binding is not None:
            for name in self.quotas.names(binding.key.namespace):
                self._queue.add(ObjectKey(binding.key.namespace, name))
