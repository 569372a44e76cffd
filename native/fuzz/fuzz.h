/* What the targets share: libFuzzer's entry, and the input as text. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* In memory of exactly its size, so that a read past its end is found. The caller frees it. */
static inline char *fuzz_text(const uint8_t *data, size_t bytes) {
    char *text = malloc(bytes + 1);
    if (text == NULL) abort();
    if (bytes > 0) memcpy(text, data, bytes);
    text[bytes] = '\0';
    return text;
}

#endif
