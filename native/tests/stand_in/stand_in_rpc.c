/* A stand-in for libggml-rpc: the server's entry, and its way to allocate for a client. */
#include "stand_in.h"

void ggml_backend_rpc_start_server(void);
void ggml_backend_rpc_start_server(void) {}

struct buffer *stand_in_rpc_alloc(const struct buffer *type, size_t size);
struct buffer *stand_in_rpc_alloc(const struct buffer *type, size_t size) {
    return ggml_backend_buft_alloc_buffer(type, size);
}
