/*
 * The status page: a memfd named "numamirror-status" that the shim writes and anybody who may
 * read /proc/PID/fd reads. numamirror_cli/memory/status_page.py is its reader.
 *
 * One mutex in the shim serialises writers of everything but `thread`; `seq` is a seqlock (odd
 * while being written). Each `thread` entry has one writer, its thread, and needs no lock; upload_*
 * and uncounted are atomic.
 * The figures are those of the last graph that was computed: what an engine frees afterwards is
 * taken out when it computes again.
 * Fields are only ever added at the end, with a new NM_STATUS_VERSION.
 */
#ifndef NUMAMIRROR_STATUS_H
#define NUMAMIRROR_STATUS_H

#include <stdint.h>

#define NM_STATUS_NAME "numamirror-status"
#define NM_STATUS_MAGIC "NUMAMIR" /* with its NUL: 8 bytes */
#define NM_STATUS_VERSION 1
#define NM_STATUS_MARK "NumaMirror status page"
#define NM_MAX_COPIES 64
#define NM_MAX_THREADS 1024
#define NM_MAX_BUFFERS 64
#define NM_MAX_GROUPS 32

enum nm_state {
    NM_WAITING = 0,     /* active, no engine has computed yet */
    NM_INERT = 1,       /* does nothing; `reason` says why */
    NM_BUILDING = 2,    /* replicas are being filled */
    NM_MIRRORED = 3,    /* every GEMM weight of at least the minimum size has its copies */
    NM_PARTIAL = 4,     /* some have not; `reason` says why */
    NM_OFF = 5,         /* an engine computes, but its weights are not mirrored; see `reason` */
    NM_FREED = 6,       /* the engine freed its last weights after that */
    NM_SHARDED = 7,     /* one copy, its rows on the nodes of the threads that read them */
    NM_OBSERVED = 8,    /* nothing is copied or moved; reads are counted by where the pages are */
    NM_INTERLEAVED = 9, /* one copy, its pages spread over the nodes */
};

enum nm_role { NM_UNUSED = 0, NM_PRIMARY = 1, NM_REPLICA = 2, NM_SHARD = 3, NM_PART = 4 };

/* What one node's CPUs read. Sampled pages: taken with move_pages after the copy was built. */
struct nm_status_copy {
    int32_t node; /* kernel id; the first one when a copy spans the nodes of a socket */
    uint32_t role;
    uint64_t bytes; /* GEMM weight bytes that readers of this copy find in it */
    uint64_t build_ns;
    uint32_t sampled_pages;
    uint32_t sampled_local; /* of those, pages on `nodes` (rehearsal: on any node) */
    int32_t sample_errno;   /* move_pages refused: sampled_* are 0 */
    uint32_t build_threads;
    char nodes[24]; /* "0", or "0,1" for a copy that spans a socket; "0-11" for many */
};

enum nm_buffer_kind { NM_ALLOTTED = 0, NM_COMPUTE = 1, NM_CACHE = 2 };

/* Host memory of the engine without weights. NM_COMPUTE: the engine said so; NM_CACHE: it did not,
 * and ops of its graphs write there, as they do to a KV cache. Others are not told. */
struct nm_status_buffer {
    uint64_t start; /* address in this process */
    uint64_t bytes;
    uint32_t kind;
    uint32_t unused;
};

/* Bytes of GEMM weights read, counted per op as tensor bytes / threads of the op; for MUL_MAT_ID
 * by the experts that the op uses. tid 0: unused. */
struct nm_status_thread {
    uint32_t tid;
    int32_t copy;            /* whose copy the counts are of, -1: of none */
    uint64_t replica_bytes;  /* from a replica of its own node */
    uint64_t home_bytes;     /* from the primary, by a reader of the copy with role PRIMARY */
    uint64_t other_bytes;    /* from the primary, elsewhere or not mirrored */
    uint64_t redirected;     /* ops sent to a copy */
    uint64_t not_redirected; /* MUL_MAT and MUL_MAT_ID on weights that were not */
    uint64_t row_hits;       /* vec_dot calls and per-expert calls sent to a copy */
    uint64_t shard_bytes;    /* sharded, interleaved or observed: from pages on its own node */
};

/* Observed: weights of one name but for the numbers in it, as "blk.*.ffn_up.weight". Where there
 * are more names than groups, the last is called "*" and has the rest. */
struct nm_status_group {
    char name[64]; /* "": unused */
    uint64_t tensors;
    uint64_t bytes;
    uint64_t local_bytes; /* read since the start, from pages on the reader's node */
    uint64_t other_bytes; /* from elsewhere */
};

struct nm_status {
    char magic[8];
    uint32_t version;
    uint32_t bytes; /* sizeof(struct nm_status) */
    uint32_t seq;
    uint32_t pid;
    uint32_t state;
    uint32_t rehearsal; /* 0, or the number of pretend nodes */
    int32_t home;
    uint32_t copies;
    uint32_t threads; /* entries of `thread` ever used; at most NM_MAX_THREADS */
    uint32_t gemm_tensors;
    uint64_t gemm_bytes;           /* distinct weight bytes that CPU GEMM reads */
    uint64_t mirrored_bytes;       /* of those, bytes that every copy serves */
    uint64_t small_bytes;          /* not mirrored: tensors below the minimum size */
    uint64_t refused_bytes;        /* not mirrored: no room on a node, or seams that do not fire */
    uint64_t sharded_bytes;        /* of gemm_bytes, placed with their readers */
    uint64_t observed_bytes;       /* of gemm_bytes, whose pages are looked for from time to time */
    uint64_t placement_unix_ns;    /* observed: when their pages were last seen to have moved */
    uint64_t decode_graphs;        /* with one token */
    uint64_t decode_bytes;         /* GEMM weight bytes that those read */
    uint64_t upload_replica_bytes; /* of weights sent to GPUs: read from a replica near the GPU */
    uint64_t upload_primary_bytes; /* read from the engine's own source */
    uint64_t arena_bytes;          /* address space held for replicas, all nodes */
    uint64_t built_unix_ns;        /* when the last build ended; 0 before */
    uint64_t token_bytes; /* read for one token: dense weights whole, of experts those used */
    uint64_t token_mirrored_bytes; /* of those, from weights that every copy serves */
    uint64_t interleaved_bytes;    /* of gemm_bytes, whose pages were spread over the nodes */
    char engine[256];              /* path of the library whose seams fire */
    char reason[256];
    struct nm_status_copy copy[NM_MAX_COPIES];
    uint64_t apart[2]; /* unused: what follows begins a cache line, one for each thread */
    /* sums of threads that have ended or have gone over to another copy: by copy, then by none */
    struct nm_status_thread retired[NM_MAX_COPIES + 1];
    struct nm_status_thread thread[NM_MAX_THREADS];
    uint32_t buffers;   /* entries of `buffer`, whose pages `inspect` looks for */
    uint32_t uncounted; /* threads that computed without an entry of `thread`: more of them at once
                           than there are, or begun behind a filter; no figure has their reads */
    struct nm_status_buffer buffer[NM_MAX_BUFFERS];
    struct nm_status_group group[NM_MAX_GROUPS];
};

/* In the shim's file, for its launcher: a shim whose page it cannot read is not preloaded. */
struct nm_status_mark {
    char mark[24];
    uint32_t version;
    uint32_t bytes;
};

#endif
