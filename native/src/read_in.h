/* Weights of a mapped file that are not in the page cache yet. */
#ifndef NM_READ_IN_H
#define NM_READ_IN_H

#include <stddef.h>

/* Asks the kernel to read what is missing of [start, start + bytes), and does not wait for it. Of
 * memory that is no file, and where the kernel cannot, nothing happens: the bytes come later, one
 * page fault at a time. */
void nm_read_in(const char *start, size_t bytes);

#endif
