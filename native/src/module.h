/*
 * A shared object that calls seams, and the real functions that *it* would have called: engines
 * are dlopen'ed RTLD_LOCAL and several can be loaded at once, so RTLD_NEXT alone finds nothing or
 * the wrong one. A module is found by the seam's return address, bound once, and stays mapped.
 */
#ifndef NM_MODULE_H
#define NM_MODULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "symbols.def"

enum nm_symbol {
#define X(name, ...) NM_SYM_##name,
    NM_SEAMS(X) NM_ARGUMENT_SEAMS(X) NM_API(X)
#undef X
#define X(name, ...) NM_SYM_vec_dot_##name,
        NM_VEC_DOTS(X)
#undef X
            NM_SYMBOLS
};

enum nm_engine_state { NM_ENGINE_NEW, NM_ENGINE_READY, NM_ENGINE_UNREADABLE, NM_ENGINE_PAUSED };

struct nm_module {
    uintptr_t low;
    uintptr_t span; /* low + span: end of its last segment */
    void *real[NM_SYMBOLS];
    struct nm_layout layout;
    _Atomic int state;          /* enum nm_engine_state, of a module that computes graphs */
    _Atomic bool seams_proven;  /* its ops on weights were seen passing */
    _Atomic bool rows_proven;   /* so were the rows, or the whole, of a MUL_MAT_ID */
    _Atomic int threads;        /* of the last op that was computed */
    _Atomic int placed_for;     /* shard: threads for which rows lie with their readers; 0: not */
    _Atomic bool announced;     /* to the launcher and on the status page */
    _Atomic long buffer_offset; /* of ggml_tensor.buffer; 0: not asked for yet, -1: not found */
    bool inside;                /* a program with its engine linked in, see static_program.h */
    bool passes_on;             /* no engine, and no user of one: see nm_module_at */
    bool has_op_seam; /* MAINLINE: every op passes; without, only pointers to weights do */
    char path[256];
};

/* The module that contains the address, bound when it is new; for an address in no object, a
 * stand-in that leads to the process's global symbols. Slow: linear over the modules bound.
 *
 * A function of an engine may end in a jump to a seam (ggml_backend_tensor_set_async does), which
 * then returns to whoever called that function: to us, or to ctypes. Such a module has none of the
 * engine's functions; the engine is the one that this thread called last, or the last one found. */
struct nm_module *nm_module_at(const void *address);

static inline bool nm_module_contains(const struct nm_module *module, const void *address) {
    return (uintptr_t)address - module->low < module->span;
}

/* "PATH (ggml 0.26.0)", as far as an engine with those functions says its version; for messages
 * about it. Returns text. */
const char *nm_named(const char *path, void *const *real, char *text, size_t bytes);

const char *nm_symbol_name(enum nm_symbol symbol);

/* For bench/: engines that are READY are PAUSED, for which every seam only passes on, or back. */
void nm_module_pause(bool pause);

/* Whether an engine with those functions could not be mirrored without this one. */
bool nm_needs(void *const *real, enum nm_symbol symbol);

/* The name of the first symbol that it needs and lacks, or NULL. */
const char *nm_lacks(void *const *real);

/* The shim's own function of that name; NULL for one that it only calls. */
void *nm_own_function(enum nm_symbol symbol);

/* Held while a module is added to the list; for init.c alone. */
extern pthread_mutex_t nm_modules_lock;

#endif
