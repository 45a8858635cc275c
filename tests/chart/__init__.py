"""The Helm chart: rendered by a real helm, and shown to a real API server."""
