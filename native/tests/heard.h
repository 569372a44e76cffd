/* What the shim says, heard by a test: its events go to stderr too (NUMAMIRROR_LOG). */
#ifndef HEARD_H
#define HEARD_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static int heard_file;

/* From now on stderr is a file; a failed CHECK has what is left. */
static inline void listen_to_the_shim(void) {
    char path[] = "/tmp/numamirror-test-XXXXXX";
    heard_file = mkstemp(path);
    CHECK(heard_file >= 0 && unlink(path) == 0);
    CHECK(dup2(heard_file, STDERR_FILENO) == STDERR_FILENO);
}

static inline int times_said(const char *text) {
    static char said[1 << 16];
    ssize_t bytes = pread(heard_file, said, sizeof said - 1, 0);
    CHECK(bytes >= 0);
    said[bytes] = '\0';
    int times = 0;
    for (const char *at = said; (at = strstr(at, text)) != NULL; ++at) ++times;
    return times;
}

#endif
