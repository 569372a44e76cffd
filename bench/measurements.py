"""What can be measured: a module of this package each, with measure(quick), and its title."""

# In this order: the cheap and telling first.
MEASUREMENTS = {
    "calls": "What a seam adds to one call of the engine",
    "tokens": "Decode and prefill, and the first token",
    "static_partition": "What it costs to divide rows for good, as shard does, on one node",
    "replicas": "How fast a replica is filled",
    "footprint": "What a mirror takes",
    "startup": "How long commands take, and what `run` adds before a program's main",
    "looking": "What a look at a process costs, and what the process feels",
    "observe_cost": "What observing, and counting experts, adds to decoding",
    "growth": "Lookup and build as models grow",
}
