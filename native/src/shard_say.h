/* What shard says of itself: where the rows are, what it does not give, and what undoes it. */
#ifndef NM_SHARD_SAY_H
#define NM_SHARD_SAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What came of placing the rows: pages, and the errno of one that stayed. */
struct nm_placed {
    size_t bytes; /* of weights */
    size_t huge;  /* of these, in huge pages that were given to one node each */
    size_t asked, local;
    int error;
    uint64_t ns;
};

/* Says where the rows are now; returns why not all are with their readers, "" when they are. */
const char *nm_shard_say_placed(const struct nm_placed *placed, int threads);

/* A thread was bound by somebody else after we had bound it. Safe on the hot path. */
void nm_shard_pin_undone(void);

/* A prompt whose work is not divided by rows. Safe on the hot path. */
void nm_shard_prompt_mixed(bool amx);

/* Says, once each, what those two have noted. Between graphs. */
void nm_shard_say_noted(void);

#endif
