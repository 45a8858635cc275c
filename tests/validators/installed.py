"""Packages as pip leaves them behind, made by hand; and a way to run a program of the product with them.

`python installed.py FOLDER MODULE ARGUMENT …` runs a program with the packages of a folder, beside all others.
"""

import importlib
import shutil
import sys
from pathlib import Path


def package(folder: Path, name: str, points: dict[str, str], module: Path | None = None) -> Path:
    """A distribution with those validators, in a folder that goes on the module path."""
    folder.mkdir(parents=True, exist_ok=True)
    information = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{point} = {target}" for point, target in points.items()]
    (information / "entry_points.txt").write_text("\n".join(["[federation_quota.validators]", *lines]) + "\n")
    if module is not None:
        shutil.copy(module, folder / f"{name.replace('-', '_')}.py")
    return folder


RULE = Path(__file__).parent / "rule.py"


def main() -> None:
    """Run it."""
    here, folder, module = Path(sys.argv[0]).parent, sys.argv[1], sys.argv[2]
    sys.path[:] = [folder, *(entry for entry in sys.path if Path(entry or ".").resolve() != here.resolve())]
    sys.argv = [module, *sys.argv[3:]]
    importlib.import_module(f"{module}.__main__").main()


if __name__ == "__main__":
    main()
