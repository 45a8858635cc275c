"""The local federation itself: what `hack/federation` promises."""
