"""YuniKorn's queue configuration in files: queues.yaml itself, or the ConfigMap that holds it."""

from collections.abc import Iterable
from typing import Final

import yaml

from federation_quota.cli import manifests
from federation_quota.cli.manifests import ManifestError
from federation_quota.elastic.imported import Imported
from federation_quota.yunikorn import checks, config, conversion
from federation_quota.yunikorn.config import Config
from federation_quota.yunikorn.document import ConfigError

KEY: Final = "queues.yaml"


def convert(paths: Iterable[str]) -> Imported:
    """All of them as one configuration; ManifestError where YuniKorn would not take one, or all together."""
    partitions: list[config.Partition] = []
    has_more, path = False, ""
    try:
        for path in paths:
            found = config.decode(_text(path))
            partitions += found.partitions
            has_more = has_more or found.has_more
            checks.check(Config(tuple(partitions)))
    except ConfigError as error:
        raise ManifestError(f"{path}: {error}") from None
    return conversion.convert(Config(tuple(partitions), has_more))


def _text(path: str) -> str:
    text = manifests.text(path)
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        return text  # its own reader says what is wrong with it
    if not isinstance(found, dict) or found.get("kind") != "ConfigMap":
        return text
    held = (found.get("data") or {}).get(KEY) if isinstance(found.get("data"), dict) else None
    if not isinstance(held, str):
        raise ManifestError(f"{path}: is a ConfigMap without {KEY}")
    return held
