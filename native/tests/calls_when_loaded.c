/* A library whose constructor calls the engine. */
#include "stand_in/stand_in.h"

void while_loading(void); /* of the program */

__attribute__((constructor)) static void load(void) {
    struct buffer buffer = {.host = true};
    while_loading();
    ggml_backend_buffer_set_usage(&buffer, 0);
}
