"""Validators as they are chosen, imported and checked: what does not fit ends the start with one clear line."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from federation_quota.validators import Decision, allow, refuse, registry
from federation_quota.validators.registry import Registration, ValidatorError
from localfed import packages
from tests.unit.test_process import kubeconfig
from tests.validators import RULE
from tests.validators.rule import Rule
from webhook import loading
from webhook.__main__ import parse

POINTS = {"rule": "acme:Rule", "broken": "acme:Broken", "unfit": "acme:Unfit", "unstarted": "acme:Unstarted"}
GONE = {"gone": "nowhere_at_all:Validator", "missing": "acme:NotThere"}

Installed = Callable[..., Path]


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with several validators, most of them no good."""
    folder = packages.package(tmp_path / "packages", "acme", POINTS | GONE, RULE)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "acme", raising=False)
    return folder


def test_nothing_is_imported_that_is_not_switched_on(acme: Path) -> None:
    assert loading.load([]) == ()
    assert "acme" not in sys.modules
    [found] = loading.load(["rule"])
    assert (found.name, found.enabled) == ("rule", True)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["rules"], "validator 'rules' is not installed; there is broken, gone, missing, rule, unfit, unstarted"),
        (["rule", "rule"], "validator 'rule' is switched on twice"),
        (["gone"], "validator 'gone' of acme (nowhere_at_all:Validator) cannot be imported: ModuleNotFoundError: "),
        (["missing"], "validator 'missing' of acme (acme:NotThere) cannot be imported: AttributeError: "),
        (["broken"], "validator 'broken' of acme (acme:Broken) cannot be made: RuntimeError: no database"),
        (["unfit"], "validator 'unfit' of acme (acme:Unfit): `validate` cannot be called with (request, tenant): "),
    ],
)
def test_what_does_not_fit_is_one_clear_line(acme: Path, names: list[str], said: str) -> None:
    with pytest.raises(ValidatorError) as raised:
        loading.load(names)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_one_name_in_two_packages_is_no_choice(acme: Path) -> None:
    packages.package(acme, "other", {"rule": "other:Rule"})
    with pytest.raises(ValidatorError, match=r"'rule' is there more than once: in acme \(acme:Rule\) and other \("):
        loading.load(["rule"])
    assert loading.load([]) == (), "unless it is switched on"


class Odd:
    name, enabled = "odd", True

    def start(self, context: object) -> None: ...

    def validate(self, request: object, tenant: object) -> Decision:
        return allow()


class Failing(Odd):
    """One of its attributes cannot be read."""

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute

    def __getattribute__(self, name: str) -> object:
        if name == object.__getattribute__(self, "_attribute"):
            raise RuntimeError("no\ndatabase")
        return object.__getattribute__(self, name)


def odd(**fields: object) -> Odd:
    made = Odd()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (odd(name="other"), "its `name` is 'other', and must be that of its entry point"),
        (odd(name=None), "its `name` is None"),
        (odd(enabled="yes"), "its `enabled` is neither True nor False"),
        (odd(start=None), "it has no `start`"),
        (odd(start=lambda: None), "`start` cannot be called with (context)"),
        (odd(validate=lambda request, tenant, more: None), "`validate` cannot be called with (request, tenant)"),
        (odd(validate=max), "`validate` cannot be called with (request, tenant): ValueError: no signature found for"),
        (Failing("name"), "its `name` cannot be read: RuntimeError: no database"),
        (Failing("enabled"), "its `enabled` cannot be read: RuntimeError: no database"),
        (Failing("start"), "its `start` cannot be read: RuntimeError: no database"),
        (Failing("validate"), "its `validate` cannot be read: RuntimeError: no database"),
        (object(), "its `name` is None"),
    ],
)
def test_a_shape_that_is_no_validators(made: object, said: str) -> None:
    registration = Registration("odd", "m:Odd", "acme")
    assert registry.fit(registration, Odd()).name == "odd"
    with pytest.raises(ValidatorError) as raised:
        registry.fit(registration, made)
    assert str(raised.value).startswith(f"validator 'odd' of acme (m:Odd): {said}")
    assert "\n" not in str(raised.value)


def test_settings_are_for_those_who_are_on() -> None:
    assert registry.settings("", ["a"]) == {"a": {}}
    assert registry.settings("a.x=1, a.y=b=c,", ["a", "b"]) == {"a": {"x": "1", "y": "b=c"}, "b": {}}
    for text, said in (
        ("a.x", "does not set anything"),
        ("x=1", "does not set anything"),
        ("c.x=1", "not switched on"),
    ):
        with pytest.raises(ValidatorError, match=said):
            registry.settings(text, ["a"])


def test_a_refusal_says_what_is_missing_on_one_line() -> None:
    assert refuse("no\nmoney", {"EUR": "3", "USD": "4"}).message == "no money (short of: EUR=3, USD=4)"
    assert refuse("").message == "it gives no reason"
    assert len(refuse("x" * 10_000).message) == 1024
    assert allow().allowed
    assert isinstance(Rule(), Rule)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--validators=nope"], "federation-quota-webhook: validator 'nope' is not installed; there is "),
        (
            ["--validators=broken"],
            "federation-quota-webhook: validator 'broken' of acme (acme:Broken) cannot be made: ",
        ),
        (["--validators=rule", "--validator-settings=x"], "federation-quota-webhook: 'x' does not set anything: "),
    ],
)
@pytest.mark.usefixtures("acme")
def test_a_program_that_cannot_have_them_does_not_start(
    flags: list[str], line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(flags)
    said = ended.value.code  # a text: Python prints it as the last line, and ends with 1
    assert isinstance(said, str)
    assert said.startswith(line)
    assert "\n" not in said
    assert capfd.readouterr() == ("", "")


def test_a_validator_that_does_not_start_keeps_the_replica_from_serving(acme: Path, tmp_path: Path) -> None:
    ran = started(acme, tmp_path, ["--validators=unstarted", "--log-format=json"])
    assert ran.returncode == 1
    [line] = [one for one in ran.stderr.splitlines() if "webhook.ended" in one]
    assert "validator 'unstarted' did not start: ValueError: no budget is set" in line
    assert "webhook.serving" not in ran.stderr


def started(acme: Path, tmp_path: Path, flags: list[str]) -> subprocess.CompletedProcess[str]:
    path = kubeconfig(tmp_path / "kubeconfig")
    common = [f"--kubeconfig={path}", "--metrics-listen=127.0.0.1:0", "--listen=127.0.0.1:0"]
    command = [sys.executable, packages.__file__, str(acme), "webhook", *common, *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
