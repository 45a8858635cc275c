"""Fuzzing by coverage: the tests of `tests/fuzz`, fed by libFuzzer (atheris) instead of by chance.

`make fuzz` gives each target a minute; what a target is and must hold is said in its test. Inputs that led somewhere
new are kept in `.fuzz/<target>`, and the next run goes on from there; one that breaks something stays as
`.fuzz/crash-…`, and `hack/fuzz.py <target> --input <file>` shows it again.
"""

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".fuzz"
TARGETS = {
    "bytes": "test_reviews:test_any_bytes",
    "json": "test_reviews:test_any_json",
    "reviews": "test_reviews:test_reviews_with_something_wrong",
    "objects": "test_reviews:test_objects_with_something_wrong",
    "charges": "test_charges:test_whatever_is_wrong_with_it",
    "quantities": "test_quantities:test_any_text_is_read_exactly_or_refused",
    "quotas": "test_objects:test_quotas",
    "bindings": "test_objects:test_bindings",
    "pods": "test_objects:test_pods",
    "works": "test_objects:test_works",
    "clusters": "test_objects:test_clusters",
    "leases": "test_objects:test_leases",
    "legacies": "test_objects:test_legacies",
    "stamps": "test_objects:test_stamps",
    "watches": "test_objects:test_a_watch_goes_on_past_whatever_is_stored",
}
# Above what any input takes; libFuzzer's own defaults are for programs in C.
LIMITS = ["-timeout=60", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=1"]


def main() -> int:
    """The exit code: zero if nothing broke."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("targets", nargs="*", metavar="target", help=f"out of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--input", type=Path, help="one input alone, such as .fuzz/crash-…")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this very process
    options = parser.parse_args()
    unknown = [target for target in options.targets if target not in TARGETS]
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; there is {', '.join(TARGETS)}")
    if options.here:
        _fuzz(options.targets[0], options.seconds, options.input)
        return 0
    broken = []
    for target in options.targets or TARGETS:
        print(f"fuzz: {target}, {TARGETS[target]}", flush=True)
        command = [sys.executable, __file__, target, "--here", "--seconds", str(options.seconds)]
        command += ["--input", str(options.input)] if options.input else []
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            broken.append(target)
    print(f"fuzz: {', '.join(broken)} broke: see above" if broken else "fuzz: nothing broke", flush=True)
    return int(bool(broken))


def _fuzz(target: str, seconds: int, input_file: Path | None) -> None:
    """Never comes back: libFuzzer ends the process."""
    try:
        import atheris  # noqa: PLC0415 - installed for this alone
    except ImportError:
        sys.exit("fuzz: atheris is not installed, and has a wheel for Linux on x86-64 only: `make fuzz` fetches it")
    sys.path.insert(0, str(ROOT))
    os.environ["FEDQUOTA_FUZZ"] = "1"
    with atheris.instrument_imports(include=["federation_quota", "webhook"]):
        module, _, name = TARGETS[target].partition(":")
        test = getattr(importlib.import_module(f"tests.fuzz.{module}"), name)
    corpus = KEPT / target
    corpus.mkdir(parents=True, exist_ok=True)
    where = [str(input_file)] if input_file else [f"-max_total_time={seconds}", str(corpus)]
    atheris.Setup([sys.argv[0], *LIMITS, f"-artifact_prefix={KEPT}/", *where], test.hypothesis.fuzz_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
