"""Write `crds/` from the models of the API, or with `--check` say where they differ.

Generated files are read by people and by Helm, so they are kept in the repository; what installs the definitions at
run time makes them from the models itself.
"""

import sys
from pathlib import Path

import yaml

from federation_quota import api
from federation_quota.crd import CustomResource

FOLDER = Path(__file__).resolve().parent.parent / "crds"
HEADER = "# Generated from federation_quota/api by hack/crds.py: change it there.\n"


def render(resource: CustomResource) -> str:
    """The definition as the file has it."""
    return HEADER + yaml.safe_dump(resource.definition(), sort_keys=False, width=120, allow_unicode=True)


def main(arguments: list[str]) -> int:
    """Write the files, or check them."""
    if arguments not in ([], ["--check"]):
        print("usage: hack/crds.py [--check]", file=sys.stderr)
        return 2
    wanted = {FOLDER / f"{resource.group}_{resource.plural}.yaml": render(resource) for resource in api.RESOURCES}
    present = {path: text for path in FOLDER.glob("*.yaml") if (text := path.read_text()).startswith(HEADER)}
    drifted = sorted(path for path in wanted | present if wanted.get(path) != present.get(path))
    for path in drifted:
        name = path.relative_to(FOLDER.parent)
        if arguments:
            print(f"{name} is not what federation_quota/api says: run .venv/bin/python hack/crds.py", file=sys.stderr)
        elif path in wanted:
            print(name)
            path.write_text(wanted[path])
        else:
            print(f"{name}: removed")
            path.unlink()
    return 1 if arguments and drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
