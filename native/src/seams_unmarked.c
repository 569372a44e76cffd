/*
 * Weights in buffers that nobody marks as such: a worker of llama.cpp's RPC is sent tensors and
 * graphs and is never told which buffer is for what. What it allocates is taken for weights until
 * an op writes to it, as ops do to caches and scratch memory (discover.c). What is allocated by
 * others is remembered too, until it is marked or written to, as host memory that may be scratch.
 */
#include "config.h"
#include "scratch.h"
#include "seam.h"

static bool defines(const struct nm_module *module, enum nm_symbol symbol) {
    return nm_module_contains(module, module->real[symbol]);
}

/* The library of the RPC server, which allocates for its clients. Where all of ggml is one
 * library, the caller says nothing of the purpose. */
static bool serves_rpc(const struct nm_module *caller) {
    return defines(caller, NM_SYM_ggml_backend_rpc_start_server) &&
           !defines(caller, NM_SYM_ggml_backend_buft_alloc_buffer);
}

/* Asked of host memory alone: the base of what lies on a GPU is not even an address. */
static void remember(const struct nm_module *m, const void *type, const void *buffer) {
    bool (*is_host)(const void *) = m->real[NM_SYM_ggml_backend_buft_is_host];
    const void *(*base_of)(const void *) = m->real[NM_SYM_ggml_backend_buffer_get_base];
    size_t (*size_of)(const void *) = m->real[NM_SYM_ggml_backend_buffer_get_size];
    if (is_host == NULL || base_of == NULL || size_of == NULL || !is_host(type)) return;
    if (size_of(buffer) > 0) nm_scratch_add(buffer, base_of(buffer), size_of(buffer));
}

NM_EXPORT void *ggml_backend_buft_alloc_buffer(void *type, size_t bytes) {
    struct nm_module *m = nm_caller_module(NM_CALLER());
    void *(*real)(void *, size_t) = m->real[NM_SYM_ggml_backend_buft_alloc_buffer];
    void *buffer = real != NULL ? real(type, bytes) : NULL;
    if (!nm_config.active || buffer == NULL) return buffer;
    remember(m, type, buffer);
    if (serves_rpc(m)) nm_learn_buffer(m, buffer, false);
    return buffer;
}
