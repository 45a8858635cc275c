"""Trust as it stands in webhook configurations: read, compared, patched; and what a sleeping leader cannot undo."""

import base64
import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from federation_quota.pki.authority import CertificateError, create_authority, sign_leaf, to_pem
from federation_quota.pki.publishing import Hook, is_trusted_everywhere, patches, trust_of
from federation_quota.pki.rotation import Policy, Publish, RotationState, Store, next_step
from tests.pki.json_patch import apply_json_patch

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OLD, NEW = create_authority(NOW), create_authority(NOW)
BOTH = to_pem([OLD.certificate, NEW.certificate])
LEAF = sign_leaf(NEW, ["webhook.example"], NOW)


def webhook(name: str, *trusted: x509.Certificate) -> dict[str, Any]:
    bundle = {"caBundle": base64.b64encode(to_pem(trusted)).decode()} if trusted else {}
    return {"name": name, "clientConfig": {"url": "https://webhook.example/", **bundle}}


def configuration(*webhooks: dict[str, Any], name: str = "quota", version: str = "41") -> dict[str, Any]:
    return {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name, "resourceVersion": version},
        "webhooks": list(webhooks),
    }


def hook(name: str) -> Hook:
    return Hook("ValidatingWebhookConfiguration", "quota", name)


def test_what_each_hook_trusts_is_read() -> None:
    found = trust_of([configuration(webhook("a", OLD.certificate), webhook("b", OLD.certificate, NEW.certificate))])
    assert found == {
        hook("a"): frozenset({OLD.certificate}),
        hook("b"): frozenset({OLD.certificate, NEW.certificate}),
    }


def test_a_hook_that_should_be_there_and_is_not_trusts_nobody() -> None:
    assert trust_of([], [hook("a")]) == {hook("a"): frozenset()}
    assert trust_of([configuration(webhook("a", OLD.certificate))], [hook("a")]) == {
        hook("a"): frozenset({OLD.certificate})
    }


@pytest.mark.parametrize("bundle", [None, "", "%%%", base64.b64encode(b"garbage").decode()])
def test_a_bundle_that_cannot_be_read_is_trust_in_nobody(bundle: str | None) -> None:
    broken = {"name": "a", "clientConfig": {"caBundle": bundle}}
    assert trust_of([configuration(broken)]) == {hook("a"): frozenset()}
    assert len(patches([configuration(broken)], BOTH)) == 1


def test_a_configuration_without_hooks_is_no_trouble() -> None:
    empty = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "quota", "resourceVersion": "1"}}
    assert trust_of([empty]) == {}
    assert patches([empty], BOTH) == []


def test_a_leaf_is_trusted_everywhere_only_if_every_hook_trusts_its_authority() -> None:
    both = webhook("a", OLD.certificate, NEW.certificate)
    assert is_trusted_everywhere(LEAF.chain, trust_of([configuration(both, webhook("b", NEW.certificate))]))
    assert not is_trusted_everywhere(LEAF.chain, trust_of([configuration(both, webhook("b", OLD.certificate))]))
    assert not is_trusted_everywhere(LEAF.chain, trust_of([configuration(both)], [hook("b")]))
    assert not is_trusted_everywhere(LEAF.chain, {})


def test_only_hooks_that_trust_something_else_are_patched_under_the_version_that_was_seen() -> None:
    current = configuration(webhook("a", NEW.certificate, OLD.certificate), webhook("b", OLD.certificate), webhook("c"))
    encoded = base64.b64encode(BOTH).decode()
    (patch,) = patches([configuration(webhook("x", OLD.certificate, NEW.certificate), name="fine"), current], BOTH)
    assert (patch.kind, patch.name) == ("ValidatingWebhookConfiguration", "quota")
    assert patch.operations == (
        {"op": "test", "path": "/metadata/resourceVersion", "value": "41"},
        {"op": "test", "path": "/webhooks/1/name", "value": "b"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": encoded},
        {"op": "test", "path": "/webhooks/2/name", "value": "c"},
        {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": encoded},
    )


def test_a_patched_configuration_needs_no_other_patch() -> None:
    current = configuration(webhook("a"), webhook("b", OLD.certificate))
    (patch,) = patches([current], BOTH)
    changed = apply_json_patch(current, patch.operations)
    assert changed is not None
    assert set(trust_of([changed]).values()) == {frozenset({OLD.certificate, NEW.certificate})}
    assert patches([changed], BOTH) == []


def test_nobody_is_made_to_trust_nothing() -> None:
    with pytest.raises(CertificateError):
        patches([configuration(webhook("a", OLD.certificate))], b"")


def test_a_leader_that_slept_cannot_take_back_what_another_published() -> None:
    """It decided to publish; then the Secret was lost, and another leader brought a third authority to signing."""
    policy = replace(Policy(), settle=timedelta())
    current = configuration(webhook("a", OLD.certificate))
    state: RotationState | None = RotationState(signing=OLD, next=NEW)
    looked = copy.deepcopy(current)
    slept = next_step(state, list(trust_of([looked]).values()), NOW, create_authority, policy)
    assert isinstance(slept, Publish)
    late = patches([looked], slept.bundle)

    state, version = None, 41
    while state is None or state.signing is None:
        decided = next_step(state, list(trust_of([current]).values()), NOW, create_authority, policy)
        if isinstance(decided, Store):
            state = decided.state
        elif isinstance(decided, Publish):
            changed = apply_json_patch(current, patches([current], decided.bundle)[0].operations)
            assert changed is not None
            current, version = changed, version + 1
            current["metadata"]["resourceVersion"] = str(version)
    leaf = sign_leaf(state.signing, ["webhook.example"], NOW)
    assert is_trusted_everywhere(leaf.chain, trust_of([current]))

    assert apply_json_patch(current, late[0].operations) is None
    # Without the tests it would have gone through, and the leaf be refused:
    blind = tuple(operation for operation in late[0].operations if operation["op"] != "test")
    overwritten = apply_json_patch(current, blind)
    assert overwritten is not None
    assert not is_trusted_everywhere(leaf.chain, trust_of([overwritten]))
