"""From a plan to a running child: environment, policy, supervision, events, exit status."""
