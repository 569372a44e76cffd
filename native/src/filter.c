#include "filter.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sys.h"

static int filters_at_load = -1;
static _Atomic bool added;

static int value_of(const char *status, const char *key) {
    const char *line = strstr(status, key);
    return line == NULL ? -1 : atoi(line + strlen(key));
}

int nm_filter_count(const char *status) {
    enum { MODE_FILTER = 2 }; /* seccomp(2) */
    int count = value_of(status, "\nSeccomp_filters:");
    if (count >= 0) return count;
    return value_of(status, "\nSeccomp:") == MODE_FILTER;
}

static int filters_now(void) {
    char text[8192];
    return nm_thread_status(text, sizeof text) ? nm_filter_count(text) : -1;
}

void nm_filter_init(void) { filters_at_load = filters_now(); }

bool nm_filter_noticed(void) { return atomic_load_explicit(&added, memory_order_relaxed); }

void nm_filter_notice(void) { atomic_store(&added, true); }

bool nm_filter_added(void) {
    if (nm_filter_noticed()) return true;
    int saved = errno;
    bool more = filters_at_load >= 0 && filters_now() > filters_at_load;
    errno = saved;
    if (!more) return false;
    nm_filter_notice();
    return true;
}
