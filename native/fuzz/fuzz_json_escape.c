/* Text that goes into an event: its first byte is the room there is. What comes out is one JSON
 * string, whole, without a control character or a bare quote. */
#include "events.h"
#include "fuzz.h"

static void check(const char *out) {
    for (; *out != '\0'; ++out) {
        if ((unsigned char)*out < 0x20 || *out == '"') abort();
        if (*out == '\\' && *++out == '\0') abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes == 0) return 0;
    size_t room = data[0] + 1u;
    char *text = fuzz_text(data + 1, bytes - 1), *out = malloc(room);
    if (out == NULL) abort();
    check(nm_json_escape(out, room, text));
    free(out);
    free(text);
    return 0;
}
