/* The kernel's pages: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64, as the kernel was built. Calls
 * about memory want addresses of whole ones. */
#ifndef NM_PAGE_SIZE_H
#define NM_PAGE_SIZE_H

#include <stddef.h>
#include <stdint.h>

size_t nm_page_bytes(void);

/* The start of the page that holds the address. */
static inline uintptr_t nm_page_at(uintptr_t address) { return address & ~(nm_page_bytes() - 1); }

/* The start of the first page that begins at the address or behind it. */
static inline uintptr_t nm_page_from(uintptr_t address) {
    return nm_page_at(address + nm_page_bytes() - 1);
}

#endif
