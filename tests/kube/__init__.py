"""The plumbing ring on real API servers and under faults; a mock server only for what no real one can show."""
