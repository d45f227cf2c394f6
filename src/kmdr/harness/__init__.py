"""Running a plan: tasks, shared work, the runner, shards, and checks by running again."""
