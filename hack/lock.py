"""Resolve the hashed files under requirements/ from pyproject.toml: `make lock`.

Universal (every platform and Python that the project supports), with hashes and without index addresses, so that two
installs anywhere are the same.
"""

import subprocess
import sys

from environment import ROOT

TARGETS = {
    "runtime.txt": ["pyproject.toml"],
    "dev.txt": ["pyproject.toml", "--group", "dev"],
    # What the Dockerfile builds the wheel with: nothing newer than what the tests build with.
    "build.txt": ["--group", "build", "--constraint", "requirements/dev.txt"],
    "fuzz.txt": ["--group", "fuzz"],
    "go.txt": ["--group", "go"],
}


def main() -> None:
    """Write each file."""
    for name, sources in TARGETS.items():
        print(f"requirements/{name}")
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"]
        command += ["--generate-hashes", "--no-header", "--no-emit-index-url", "--no-emit-find-links"]
        subprocess.run([*command, *sources, "--output-file", f"requirements/{name}"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
