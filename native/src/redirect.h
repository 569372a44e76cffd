/* The hot path: from an op on a weight to the copy that this thread should read. */
#ifndef NM_REDIRECT_H
#define NM_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>

#include "table.h"
#include "thread.h"

/* An op and its weight tensor, copied so that the copy's data pointer can differ. The engine's
 * own structs are never written. */
struct nm_shadow {
    _Alignas(16) char op[NM_TENSOR_MAX];
    _Alignas(16) char weight[NM_TENSOR_MAX];
};

/* Bytes of the weight that the op reads: all, or the slabs of the experts it names (each at most
 * once; with many tokens the same expert can be named often, so that this is an upper bound). */
size_t nm_op_bytes(const struct nm_layout *layout, const void *op, const void *weight,
                   bool by_expert);

/* What this thread should do with an op on a weight. */
struct nm_choice {
    const struct nm_weight *known; /* NULL: src0 is no weight that the table knows */
    ptrdiff_t delta;               /* 0: read the primary */
    bool by_slice;                 /* each expert has a place of its own: nm_slice_moved */
};

/* Chooses, and counts the bytes; `threads` of the op. No lock, no allocation, no syscall (but
 * for a thread's first op). */
struct nm_choice nm_choose(struct nm_thread *thread, const struct nm_module *engine, const void *op,
                           bool by_expert, int threads);

/* The same for an engine that hands over addresses, not ops: how much further on to read instead.
 * `bytes` is what the call's `threads` read of it together. Not is_read_here: another function will
 * read it, from where the engine has it; that is counted. */
ptrdiff_t nm_choose_at(struct nm_thread *thread, struct nm_module *engine, uintptr_t address,
                       size_t bytes, int threads, bool is_read_here);

/* How much further on this thread reads the expert of a weight with slices. */
ptrdiff_t nm_slice_moved(const struct nm_weight *weight, size_t expert);

/* Moves the thread's open range to the expert that the row is of. */
void nm_next_slice(struct nm_thread *thread, uintptr_t row);

/* The same for a row: where to read it. */
const void *nm_moved_row(const struct nm_module *engine, const void *row);

/* Set once a buffer for AMX was seen: its kernels divide long prompts by columns. */
extern _Atomic bool nm_amx_seen;

/* For tests of shard: books whether the row's owner is the copy that this thread was pinned for. */
void nm_check_owner(const struct nm_thread *thread, const void *row);
void nm_owners_checked(unsigned long *by_owner, unsigned long *rows);

/* Whether the address lies in a buffer of weights. Takes the lock: only until it is known that an
 * engine's calls pass the seams. */
bool nm_is_weight(const void *address);

/* Fills the shadow with the op, whose weight then lies `delta` bytes further on. */
void nm_shadow_fill(struct nm_shadow *shadow, const struct nm_layout *layout, const void *op,
                    ptrdiff_t delta);

/* An op is about to write its dst: if that lies in a weight, its replicas are out of use. */
void nm_dst_written(const struct nm_layout *layout, const void *op);

#endif
