/* What the launcher asked for, parsed once from the environment (docs/protocol.md). */
#ifndef NM_CONFIG_H
#define NM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "numamirror_status.h"

#define NM_MAX_CPUS 8192
#define NM_MAX_NODES_PER_COPY 16

/* One copy of the weights: the memory nodes it lies on and the CPUs that read it. */
struct nm_copy {
    int nodes[NM_MAX_NODES_PER_COPY];
    int node_count;
    int cpu_count;
    int core_count; /* physical ones; as many as CPUs where nothing is said of cores */
    char nodes_text[24];
};

struct nm_config {
    bool active;
    const char *error; /* why it is not active although the launcher asked; NULL otherwise */
    int home;
    int home_copy; /* index of the copy that contains `home`; -1 in none */
    unsigned rehearsal;
    bool copy_home;
    bool shard;        /* place rows with their readers instead of copying */
    bool observe;      /* copy and move nothing: count what is read from where */
    bool interleave;   /* one copy of the weights, spread evenly over the nodes */
    bool pin;          /* threads run on the nodes of their copies; shard implies it */
    bool heal;         /* a primary off home is moved there */
    bool check_owners; /* tests: shard counts rows read by their owner */
    bool no_redirect;  /* tests: replicas are built and not read */
    bool stealing;     /* bench: shard leaves the division of rows to the engine */
    bool log;
    int source_node; /* tests: uploads read the replica on this node; -1: the GPU's own */
    size_t min_bytes;
    size_t budget_bytes;   /* that replicas of one copy may take; 0: what the node has */
    unsigned adapt_tokens; /* so many are counted before experts are copied; 0: none */
    int copies;
    struct nm_copy copy[NM_MAX_COPIES];
    int8_t copy_of_cpu[NM_MAX_CPUS]; /* -1: reads the primary */
    bool is_core[NM_MAX_CPUS];       /* the first CPU of a physical core */
    char events[108];                /* "@name" of a socket, "/path#inode" of a pipe, or "" */
};

/* Parses NUMAMIRROR_* through `get` (getenv, or a table in tests). Never fails: see `error`. */
void nm_config_parse(struct nm_config *config, const char *(*get)(const char *name));

/* The process's own configuration; inactive until nm_config_parse was called on it. */
extern struct nm_config nm_config;

#endif
