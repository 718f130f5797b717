"""vLLM: what lies on every rank, how many KV blocks that leaves, and what it refuses. Rules of 0.33.0 unless named."""
