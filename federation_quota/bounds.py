"""The bounds of the API: how many items a list may have, and how many characters a text.

The schemas of `federation_quota.api` are written with these, and whatever fills a status keeps to them.
"""

from typing import Final

MOST_RESOURCES: Final = 128
MOST_RESERVATIONS: Final = 1024
MOST_JOINED: Final = 64
MOST_WAITING: Final = 256
MOST_ASKS: Final = 256
MOST_CLUSTERS: Final = 1024
MOST_NAMESPACES: Final = 1024
MOST_NODES: Final = 256
MOST_STRICT: Final = 16
MOST_MANAGERS: Final = 64
MOST_LIMITS: Final = 256
MOST_LISTED: Final = 1024

LONGEST_NAME: Final = 253
LONGEST_LABEL: Final = 63
LONGEST_QUALIFIED: Final = 317
LONGEST_UID: Final = 64
LONGEST_SHAPE: Final = 64
LONGEST_LIMIT: Final = 64
# Sums are exact, and may be as long as `quantity` reads.
LONGEST_AMOUNT: Final = 1024
LONGEST_MESSAGE: Final = 1024
# Room for every resource by the longest name it can have.
LONGEST_SUMMARY: Final = 65536
