#include "page_size.h"

#include <stdatomic.h>
#include <unistd.h>

size_t nm_page_bytes(void) {
    static _Atomic size_t known;
    size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes != 0) return bytes;
    bytes = (size_t)sysconf(_SC_PAGESIZE);
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}
