"""The cipher world: a small, constructed task with a warm-started policy, in which training takes minutes on a CPU."""
