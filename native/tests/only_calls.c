/* A library with nothing of an engine, as ctypes: it calls the functions that it is given. */
#include "only_calls.h"

void only_call_usage(usage_function *function, struct buffer *buffer, int usage) {
    function(buffer, usage);
}

void only_call_set(set_function *function, struct tensor *tensor, const void *data, size_t size) {
    function(tensor, data, 0, size);
}
