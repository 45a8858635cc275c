"""What the documents show is typed on the real federation, and printed as they say."""

import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from localfed.federation import Federation
from tests.docs import pages
from tests.docs.pages import ROOT, Command

pytestmark = pytest.mark.federation

# The namespace that the documents speak of.
_SHOP = re.compile(r"(-n|namespace) shop\b")
WITHIN_SECONDS = 120.0
# Typed by tests of their own, on a federation that is otherwise.
OWN = {"docs/validators.md"}


class Reader:
    """Somebody who does what a document says, in a namespace of their own."""

    def __init__(self, federation: Federation, namespace: str, folder: Path) -> None:
        self._environment = federation.environment()
        self._namespace = namespace
        self._folder = folder
        shutil.copytree(ROOT / "examples", folder / "examples")
        for path in (folder / "examples").rglob("*.yaml"):
            own = "name" if path.name == "namespace.yaml" else "namespace"
            path.write_text(re.sub(rf"\b{own}: shop\b", f"{own}: {namespace}", path.read_text()))

    def type(self, command: Command) -> None:
        """Once, or, where that changes nothing, until it prints what is shown."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while True:
            printed = self._run(_SHOP.sub(rf"\1 {self._namespace}", command.text)).replace(self._namespace, "shop")
            if command.matches(printed):
                return
            shown = "\n".join(command.printed)
            assert command.looks and time.monotonic() < deadline, (  # noqa: PT018 - one story
                f"{command.page}: {command.text}\nis shown to print\n{shown}\nand printed\n{printed}"
            )
            time.sleep(0.1)

    def _run(self, text: str) -> str:
        # Our own programs too: kubectl finds its plugins there.
        path = f"{self._environment['PATH']}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"KUBECONFIG": self._environment["KUBECONFIG"], "PATH": path, "HOME": str(self._folder)}
        ran = subprocess.run(
            ["bash", "-c", text],
            cwd=self._folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=120,
        )
        return ran.stdout


@pytest.fixture
def reader(federation: Federation, tmp_path: Path) -> Iterator[Reader]:
    name = f"shop-{uuid.uuid4().hex[:8]}"
    yield Reader(federation, name, tmp_path)
    federation.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


PAGES = [str(page.relative_to(ROOT)) for page in pages.pages() if any(pages.sessions(page))]


def _case(page: str) -> object:
    """Who reads Karmada's Events comes late: it writes them one by one, and while many tests run they take minutes."""
    is_late = any("reason=ApplyPolicyFailed" in command.text for command in pages.sessions(ROOT / page))
    return pytest.param(page, marks=[pytest.mark.alone, pytest.mark.last(0)] if is_late else [])


@pytest.mark.parametrize("page", [_case(page) for page in PAGES if page not in OWN])
def test_the_sessions_of_a_page_go_as_they_are_shown(reader: Reader, page: str) -> None:
    for command in pages.sessions(ROOT / page):
        reader.type(command)
