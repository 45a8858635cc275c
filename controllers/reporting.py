"""Events that say what happened to quotas and to what waits for them: `kubectl describe` shows them.

A courtesy: nothing depends on one, and how often the same is said is `kube.correlation`'s to decide.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from federation_quota import karmadaquota, member_usage, waiting
from federation_quota.binding import Binding
from federation_quota.kube.correlation import Reference
from federation_quota.kube.events import Recorder
from federation_quota.kube.quotas import KARMADA_QUOTAS, RESOURCE_BINDINGS
from federation_quota.ledger.account import Account
from federation_quota.limits import usage
from federation_quota.pending import Pending
from federation_quota.room import Obstacle
from federation_quota.undercount import Undercount


class Reporting:
    """What the controllers have to say."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def quota_changed(self, before: Account | None, after: Account) -> None:
        """A quota was stored; nothing is said of one that was not seen before."""
        if before is None or before.uid != after.uid or usage.is_usage(after):
            return
        about = Reference(KARMADA_QUOTAS.api_version, KARMADA_QUOTAS.kind, after.name, after.namespace, after.uid)
        old, new = karmadaquota.quota(before).status, karmadaquota.quota(after).status
        if after.is_active and not before.is_active:
            self._recorder.record(about, "Activated", f"every replica of the webhook enforces it: {new.get('summary')}")
        over = new.get("exceeded") or ""
        if over and not old.get("exceeded"):
            message = f"more is used than its limit of {over} allows ({new.get('summary')}): what runs is not stopped"
            self._recorder.record(about, "OverLimit", message, is_warning=True)
        elif old.get("exceeded") and not over:
            self._recorder.record(about, "WithinLimit", f"no more is used than it allows ({new.get('summary')})")
        self._members_changed(about, old, new)
        if old.get("waiting") != new.get("waiting"):
            known = {one.binding for one in waiting.read(old)}
            for one in waiting.read(new):
                if one.binding not in known:
                    message = f"{one.kind} {one.name} was refused: {one.message}"
                    self._recorder.record(about, waiting.QUOTA_EXCEEDED, message, is_warning=True)

    def undercounted(self, undercount: Undercount) -> None:
        """Its pods use more than it says."""
        self._about(undercount.binding, "Undercounted", str(undercount), is_warning=True)

    def held(self, binding: Binding, obstacles: Iterable[Obstacle]) -> None:
        """It is kept back, and by what."""
        what = "its growth is held" if binding.clusters else "it is held"
        reasons = "; ".join(str(one) for one in obstacles)
        self._about(binding, "Held", f"{what} until it fits: {reasons}", is_warning=True)

    def pending(self, binding: Binding, note: Pending) -> None:
        """A validator refused what it asks for, for now."""
        what = "its growth is not admitted" if binding.clusters else "it is not admitted"
        when = f"tried again when its tenant uses less, or after {note.retry_seconds} s"
        message = f"{what} for now by validator {note.validator}: {note.message} ({when})"
        self._about(binding, "Pending", message, is_warning=True)

    def released(self, binding: Binding, reason: str) -> None:
        """It is no longer held."""
        self._about(binding, "Released", reason or "no quota holds it any more")

    def waits(self, binding: Binding, reason: str) -> None:
        """It waits in an elastic tree, and for what."""
        self._about(binding, "Held", f"it is held until it fits: {reason}", is_warning=True)

    def displaced(self, binding: Binding, reason: str) -> None:
        """It gave way, and waits again."""
        self._about(
            binding,
            "Displaced",
            f"it was taken from its clusters, and waits until it fits again: {reason}",
            is_warning=True,
        )

    def woken(self, about: Collection[Reference], reason: str) -> None:
        """It is tried again after a refusal."""
        for one in about:
            self._recorder.record(one, "Woken", f"tried again: {reason or 'nothing stands in the way any more'}")

    def _members_changed(self, about: Reference, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        before = member_usage.read(old)
        for name, now in member_usage.read(new).items():
            was_stale = name in before and before[name].is_stale
            if now.is_stale and not was_stale and (now.bound or now.observed):
                since = f"what was seen until {now.last_seen} stands" if now.last_seen else "its pods were never seen"
                message = f"member cluster {name} is not observed ({now.message}): {since}"
                self._recorder.record(about, "MemberStale", message, is_warning=True)
            elif was_stale and not now.is_stale and (now.bound or now.observed):
                self._recorder.record(about, "MemberBack", f"member cluster {name} is observed again")
        finding, known = (_condition(one, member_usage.UNBOUND_USAGE) for one in (new, old))
        if finding.get("status") == "True" and known.get("status") != "True":
            self._recorder.record(about, member_usage.UNBOUND_USAGE, finding["message"], is_warning=True)

    def _about(self, binding: Binding, reason: str, message: str, *, is_warning: bool = False) -> None:
        for about in (binding_reference(binding), template_reference(binding)):
            self._recorder.record(about, reason, message, is_warning=is_warning)


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((one for one in status.get("conditions") or () if one["type"] == kind), {})


def binding_reference(binding: Binding) -> Reference:
    """A binding, for Events about it."""
    key = binding.key
    return Reference(RESOURCE_BINDINGS.api_version, RESOURCE_BINDINGS.kind, key.name, key.namespace, binding.uid)


def template_reference(binding: Binding) -> Reference:
    """What a binding propagates, for Events about it."""
    template = binding.template
    return Reference(template.api_version, template.kind, template.name, template.namespace, template.uid)
