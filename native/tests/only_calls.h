#ifndef ONLY_CALLS_H
#define ONLY_CALLS_H

#include "stand_in/stand_in.h"

typedef void usage_function(struct buffer *buffer, int usage);
typedef void set_function(struct tensor *tensor, const void *data, size_t offset, size_t size);

void only_call_usage(usage_function *function, struct buffer *buffer, int usage);
void only_call_set(set_function *function, struct tensor *tensor, const void *data, size_t size);

#endif
