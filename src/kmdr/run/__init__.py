"""From a configuration to rows on disk: experiment, task, plan, runner, store; and what checks them."""
