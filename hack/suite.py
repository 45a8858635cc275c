"""The whole test suite, in the time of its longer half: the tests on the real federation, and all others beside them.

On the federation a test mostly waits for what others do; the others mostly compute. They run at a low priority, so that
the federation hardly notices, and what they printed follows when it has had its turn.
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

PYTEST = [sys.executable, "-m", "pytest"]


@contextlib.contextmanager
def beside(output: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The tests that need no federation, in a process of their own that ends with this one."""
    quietly = ["nice", "-n", "10", *PYTEST, "-m", "not federation", "-o", "cache_dir=.pytest_cache/beside"]
    process = subprocess.Popen(quietly, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def main() -> int:
    """The exit code: zero if all passed."""
    with tempfile.TemporaryFile() as output, beside(output) as others:
        federation = subprocess.run([*PYTEST, "-m", "federation"], check=False)
        print("\nand the tests that need no federation:", flush=True)
        others.wait()
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
    return federation.returncode or others.returncode


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
