"""Holding what does not fit, where the quota says so: accepted, and kept from being scheduled until there is room.

Part of the mutating review of bindings, after the stamp, which says what a binding costs and whose it is.

- A new binding that does not fit a quota with `onExceeded: Hold` is suspended and marked. It costs nothing then.
- So is a running one that grows by nothing but replicas; it keeps its clusters, and costs what it has there. All else
  that makes a binding dearer is refused: its present self could not go on unchanged.
- Suspended, a binding is not placed anew when a cluster fails. One that is held only for its growth, and loses
  a cluster, goes on at the size that it had, and its growth waits as if it had been refused.
- What others suspended is theirs: it is neither marked nor released, and is judged like anything else.
- A quota that denies goes before one that holds.
- Under an elastic leaf everything waits that would cost it something: whoever knows the whole tree says when it may go.
- What a validator refused a moment ago waits with a note on it (`pending`).

Marks that clients make themselves are not taken: only the system holds, and only it releases.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from federation_quota import karmadaquota
from federation_quota.binding import Binding, ObjectKey
from federation_quota.elastic import leaf as leaves
from federation_quota.kube import codec, outline
from federation_quota.kube.mirrors import claim
from federation_quota.kube.outline import Outline
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import NO_CLAIM
from federation_quota.ledger.judging import Ask
from federation_quota.pending import Pending
from federation_quota.room import Room
from federation_quota.stamp import HELD_LABEL, PENDING_ANNOTATION, TRUE
from webhook.review import Verdict, refuse

Operation = dict[str, Any]
"""One operation of a JSON patch."""

_LABELS: Final = "/metadata/labels"
_LABEL: Final = f"{_LABELS}/{HELD_LABEL.replace('~', '~0').replace('/', '~1')}"
_ANNOTATIONS: Final = "/metadata/annotations"
_PENDING: Final = f"{_ANNOTATIONS}/{PENDING_ANNOTATION.replace('~', '~0').replace('/', '~1')}"
_SUSPENSION: Final = "/spec/suspension"


@dataclass(frozen=True, slots=True)
class Holding:
    """Stamps and, where need be, holds."""

    stamping: Callable[[Outline, Outline | None], Awaitable[Verdict]]
    is_system: Callable[[str], bool]  # by user name: one of the system's own identities
    holders: Callable[[str], Sequence[str]]  # the quotas of a namespace that hold
    room: Callable[[str], Room]  # of a namespace, now
    note: Callable[[str, Binding, Binding | None, str], None]  # that something of a binding waits for a quota
    leaf: Callable[[str], Account | None] = lambda _name: None  # the account of an elastic leaf
    has_leaves: Callable[[], bool] = lambda: False
    pending: Callable[[ObjectKey], Pending | None] = lambda _key: None  # what a validator refused lately of a binding

    async def __call__(self, request: codec.AdmissionRequest, _deadline: float) -> Verdict:
        """The patch that stamps, and holds what is to be held."""
        is_update = request.operation == "UPDATE"
        seen, before = outline.decode(request.object), outline.decode(request.old_object) if is_update else None
        verdict = await self.stamping(seen, before)
        is_any_held = any(one.is_labelled(HELD_LABEL) for one in (seen, before) if one is not None)
        refused = self.pending(seen.key)
        may_hold = is_any_held or refused is not None or self.holders(request.namespace) or self.has_leaves()
        if not verdict.is_allowed or not may_hold:
            return verdict
        document = _patched(codec.decode_object(request.object), verdict.patch)
        is_system = self.is_system(request.user_info.username)
        patch: tuple[Operation, ...] = ()
        old = None
        if is_update:
            old = codec.decode_binding(request.old_object)
        elif not is_system and _is_marked(document):
            del document["metadata"]["labels"][HELD_LABEL]
            patch = ({"op": "remove", "path": _LABEL},)
        new = codec.decode_binding(msgspec.json.encode(document))
        if new.is_deleting:
            return verdict
        if old is not None and not is_system:
            was_marked = _is_marked(codec.decode_object(request.old_object))
            if old.is_held and not new.is_held:
                return refuse(403, "Forbidden", held_text(new.key))
            if old.is_held != new.is_held or was_marked != _is_marked(document):
                return refuse(403, "Forbidden", f"{new.key} can be marked as held by federation-quota alone")
        if old is not None and not is_system and _loses_clusters(new, old):
            if not request.dry_run:
                self._note_growth(new, old)
            patch += _resume(document, old)
        elif refused is not None and refused.charge == new.charge and can_be_held(new, old):
            patch += (*_hold(document), _note(document, refused))
        elif self._waits_for_leaf(new, old) or self.would_hold(new, old):
            patch += _hold(document)
        return replace(verdict, patch=(*verdict.patch, *patch)) if patch else verdict

    def would_hold(self, new: Binding, old: Binding | None, refused_by: str = "") -> bool:
        """Whether a binding is to be held; `refused_by`: that quota has just refused it, whatever is seen here."""
        holders = self.holders(new.key.namespace)
        if not holders or not can_be_held(new, old) or (refused_by and refused_by not in holders):
            return False
        obstacles = self.room(new.key.namespace).obstacles(_ask(new, old))
        if any(one.is_certain and one.on_exceeded == karmadaquota.DENY for one in obstacles):
            return False
        return bool(refused_by) or any(one.exceeded and one.account.name in holders for one in obstacles)

    def _waits_for_leaf(self, new: Binding, old: Binding | None) -> bool:
        """Whether it has just come under an elastic leaf that it would cost something, and has nothing yet."""
        leaf = new.stamp.leaf
        if not leaf or new.is_suspended or new.evicted or new.clusters or new.assigned:
            return False
        if old is not None and old.stamp.leaf == leaf:
            return False  # it was let go, or had no reason to wait
        account = self.leaf(leaf)
        return account is not None and bool(leaves.wants(account, new))

    def _note_growth(self, new: Binding, old: Binding) -> None:
        holders = self.holders(new.key.namespace)
        if holders:
            message = "held for its growth; a cluster failed, and it goes on at the size that it had"
            self.note(holders[0], replace(new, is_held=False), old, message)


def _is_marked(document: dict[str, Any]) -> bool:
    return HELD_LABEL in (document["metadata"].get("labels") or {})


def held_text(key: object) -> str:
    """Why nobody may release a held binding, and what they can do."""
    return (
        f"{key} is held until its quota has room: federation-quota alone releases it. "
        "Make room, raise the quota, or delete the workload."
    )


def can_be_held(new: Binding, old: Binding | None) -> bool:
    """Whether its present self could go on unchanged while what is asked for waits."""
    if new.is_suspended or new.evicted:
        return False
    if old is None:
        # What has clusters already, its own or those of what depends on it, is not kept from them by a suspension.
        return not new.assigned
    is_same = (new.request, new.components, new.clusters, new.stamp.priority_class) == (
        old.request,
        old.components,
        old.clusters,
        old.stamp.priority_class,
    )
    return is_same and new.replicas > old.replicas


def _loses_clusters(new: Binding, old: Binding) -> bool:
    gone = {share.name for share in old.clusters} - {share.name for share in new.clusters}
    return old.is_held and new.is_held and bool(gone) and not new.components


def _ask(new: Binding, old: Binding | None) -> Ask:
    if old is None:
        return Ask("", new.key.name, claim(new), NO_CLAIM, uid=new.uid)
    return Ask("", new.key.name, claim(new), claim(old), base=old.version)


def _hold(document: dict[str, Any]) -> tuple[Operation, ...]:
    labels = document["metadata"].get("labels")
    mark = {"path": _LABEL, "value": TRUE} if labels else {"path": _LABELS, "value": {HELD_LABEL: TRUE}}
    return {"op": "add", **mark}, _suspend(document, True)


def _resume(document: dict[str, Any], old: Binding) -> tuple[Operation, ...]:
    """As it was before it was held: at the size that its clusters had."""
    scheduling = (document["spec"].get("placement") or {}).get("replicaScheduling") or {}
    had = [share.replicas for share in old.clusters]
    replicas = sum(had) if scheduling.get("replicaSchedulingType") == "Divided" else max(had)
    size = {"op": "add", "path": "/spec/replicas", "value": min(replicas, document["spec"].get("replicas") or 0)}
    return {"op": "remove", "path": _LABEL}, _suspend(document, False), size


def _note(document: dict[str, Any], refused: Pending) -> Operation:
    text = refused.encode()
    if document["metadata"].get("annotations"):
        return {"op": "add", "path": _PENDING, "value": text}
    return {"op": "add", "path": _ANNOTATIONS, "value": {PENDING_ANNOTATION: text}}


def _suspend(document: dict[str, Any], value: bool) -> Operation:
    if document["spec"].get("suspension"):
        return {"op": "add", "path": f"{_SUSPENSION}/scheduling", "value": value}
    return {"op": "add", "path": _SUSPENSION, "value": {"scheduling": value}}


def _patched(document: dict[str, Any], patch: tuple[Operation, ...]) -> dict[str, Any]:
    """The document with what the stamp adds to it: `add` into objects is all that it does."""
    for operation in patch:
        *parents, last = (
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].removeprefix("/").split("/")
        )
        target = document
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = operation["value"]
    return document
