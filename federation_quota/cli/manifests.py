"""Manifests in files: YAML or JSON, several in one file, lists of them, and `-` for standard input."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

Manifest = Mapping[str, Any]

_STDIN: Final = "-"


class ManifestError(ValueError):
    """A file that holds no manifests; the text names it."""


class _Loader(yaml.SafeLoader):
    """As Kubernetes reads YAML: a time is the text that it was written as."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """What occurs twice is written twice: people read this, and copy from it."""

    def ignore_aliases(self, data: object) -> bool:
        """Always."""
        return True


def read(paths: Iterable[str]) -> list[Manifest]:
    """The manifests of these files, in order; ManifestError where one cannot be read."""
    return [one for path in paths for document in _documents(path) for one in _unfolded(document, path)]


def dump(manifests: Iterable[Manifest]) -> str:
    """As `kubectl apply -f` reads them."""
    dumped: str = yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_start=True)
    return dumped


def text(path: str) -> str:
    """What a file holds; ManifestError where that cannot be read."""
    try:
        return sys.stdin.read() if path == _STDIN else Path(path).read_text()
    except OSError as problem:
        raise ManifestError(f"{path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise ManifestError(f"{path}: is neither YAML nor JSON") from None


def _documents(path: str) -> list[object]:
    try:
        return [one for one in yaml.load_all(text(path), Loader=_Loader) if one is not None]
    except RecursionError:
        raise ManifestError(f"{path}: is neither YAML nor JSON") from None
    except yaml.YAMLError as problem:
        raise ManifestError(f"{path}: {' '.join(str(problem).split())}") from None


def _unfolded(document: object, path: str) -> Iterator[Manifest]:
    if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
        raise ManifestError(f"{path}: holds something that is no Kubernetes object: each has apiVersion and kind")
    items = document.get("items")
    if document["kind"].endswith("List") and isinstance(items, list):
        for item in items:
            yield from _unfolded(item, path)
        return
    for place in (("metadata",), ("metadata", "labels"), ("metadata", "annotations"), ("spec",)):
        found: object = document
        for field in place:
            found = found.get(field) if isinstance(found, Mapping) else None
        if found is not None and not isinstance(found, Mapping):
            raise ManifestError(f"{path}: {'.'.join(place)} of a {document['kind']} is no map")
    yield document
