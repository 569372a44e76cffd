/* Bytes taken for code: a length ends inside them, and the opcode inside the length. */
#include "fuzz.h"
#include "static_x86.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *code = fuzz_text(data, bytes);
    for (size_t i = 0; i < bytes; ++i) {
        size_t opcode, length = nm_x86_length((const unsigned char *)code + i, bytes - i, &opcode);
        if (length > bytes - i || (length > 0 && opcode >= length)) abort();
    }
    free(code);
    return 0;
}
