/* What the shim says, heard by a test: its events go to stderr too (NUMAMIRROR_LOG). */
#ifndef HEARD_H
#define HEARD_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static int heard_file, stderr_before;

/* At the end, for who reads why a CHECK failed. */
static inline void repeat_what_was_heard(void) {
    char part[4096];
    ssize_t bytes;
    for (off_t at = 0; (bytes = pread(heard_file, part, sizeof part, at)) > 0; at += bytes)
        if (write(stderr_before, part, (size_t)bytes) < 0) return;
}

/* From now on stderr is a file. */
static inline void listen_to_the_shim(void) {
    char path[] = "/tmp/numamirror-test-XXXXXX";
    heard_file = mkstemp(path);
    CHECK(heard_file >= 0 && unlink(path) == 0);
    stderr_before = dup(STDERR_FILENO);
    CHECK(stderr_before >= 0 && atexit(repeat_what_was_heard) == 0);
    CHECK(dup2(heard_file, STDERR_FILENO) == STDERR_FILENO);
}

static inline int times_said(const char *text) {
    static char said[1 << 18];
    ssize_t bytes = pread(heard_file, said, sizeof said - 1, 0);
    CHECK(bytes >= 0);
    said[bytes] = '\0';
    int times = 0;
    for (const char *at = said; (at = strstr(at, text)) != NULL; ++at) ++times;
    return times;
}

#endif
