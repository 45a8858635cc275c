"""Certificates that an administrator, or cert-manager, gives in files."""

import base64
from pathlib import Path

import pytest

from localfed.authority import Authority
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard
from tests.federation.manifests import quota
from tests.federation.stage import Stage
from tests.federation.test_concurrency import binding

pytestmark = pytest.mark.federation


def test_hooks_trust_and_serve_what_was_given(guard: Guard, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "given", "an authority of the administrator's")
    certificate, key = authority.issue("webhook", common_name="webhook")
    flags = {
        "quota-webhook-1": [f"--certificate={certificate}", f"--key={key}"],
        "quota-controllers-1": [f"--certificate-authority={authority.certificate}"],
    }
    federation = Federation(tmp_path / "fed")
    federation.up(Shape(members=0, quota=1, flags=flags), guard)
    try:
        found = federation.kubectl.json("get", "validatingwebhookconfiguration", "federation-quota-validating")
        for hook in found["webhooks"]:
            assert base64.b64decode(hook["clientConfig"]["caBundle"]) == authority.certificate.read_bytes()
        stage = Stage(federation, "default")
        stage.apply(quota("q", {"pods": "1"}))
        stage.quota_active("q")
        with pytest.raises(Exception, match="exceeded quota: q, requested: pods=2, used: pods=0, limited: pods=1"):
            stage.apply(binding("b", "default", 2))
        assert "federation-quota-authority" not in federation.kubectl("get", "secrets", "-A")
    finally:
        federation.down()
