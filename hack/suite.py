"""The whole test suite, in the time of its longer half: the tests on the real federation, and all others beside them.

On the federation a test mostly waits for what others do; the others mostly compute. They run at a low priority, so that
the federation hardly notices, and what they printed follows when it has had its turn.
"""

import subprocess
import sys
import tempfile
import threading
from typing import IO

PYTEST = [sys.executable, "-m", "pytest"]
ON_THE_FEDERATION = ["-m", "federation", "--ignore=tests/chart", "--ignore=tests/image"]
# The chart and the image have an API server of their own at most, but much to compile and to install.
BESIDE = [["-m", "not federation"], ["tests/chart", "tests/image"]]


class Beside:
    """The other tests, one part after the other, in processes that end with this one."""

    def __init__(self, output: IO[bytes]) -> None:
        self.code = 0
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait(self) -> None:
        """Until all of them are through."""
        self._thread.join()

    def stop(self) -> None:
        """End what runs, and start nothing more."""
        with self._lock:
            self._is_stopped = True
            if self._process and self._process.poll() is None:
                self._process.terminate()
        self._thread.join()

    def _run(self) -> None:
        for part in BESIDE:
            with self._lock:
                if self._is_stopped:
                    return
                command = ["nice", "-n", "10", *PYTEST, *part, "-o", "cache_dir=.pytest_cache/beside"]
                self._process = subprocess.Popen(command, stdout=self._output, stderr=subprocess.STDOUT)
            self.code = self._process.wait() or self.code


def main() -> int:
    """The exit code: zero if all passed."""
    with tempfile.TemporaryFile() as output:
        others = Beside(output)
        try:
            federation = subprocess.run([*PYTEST, *ON_THE_FEDERATION], check=False)
            print("\nand what ran beside:", flush=True)
            others.wait()
        finally:
            others.stop()
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
    return federation.returncode or others.code


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
