#include "options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *number(const char *text, long *value) {
    char *end;
    if (!isdigit((unsigned char)*text)) return NULL;
    *value = strtol(text, &end, 10);
    return *value < NM_MOST_CPUS ? end : NULL;
}

int nm_cpus_read(const char *text, int *cpus) {
    int count = 0;
    for (;;) {
        long first, last;
        text = number(text, &first);
        if (text == NULL) return -1;
        last = first;
        if (*text == '-') text = number(text + 1, &last);
        if (text == NULL || last < first) return -1;
        for (long cpu = first; cpu <= last; ++cpu) {
            if (count == NM_MOST_CPUS) return -1;
            cpus[count++] = (int)cpu;
        }
        if (*text == '\0') return count;
        if (*text++ != ',') return -1;
    }
}

static const char *set(const char *name, const char *value, struct nm_options *options) {
    if (strcmp(name, "--cpus") == 0) {
        options->reader_count = nm_cpus_read(value, options->readers);
        return options->reader_count > 0 ? NULL : "--cpus: not a list of CPUs";
    }
    if (strcmp(name, "--fill-cpus") == 0) {
        options->filler_count = nm_cpus_read(value, options->fillers);
        return options->filler_count > 0 ? NULL : "--fill-cpus: not a list of CPUs";
    }
    char *end;
    if (strcmp(name, "--node") == 0) {
        options->node = (int)strtol(value, &end, 10);
        return *end == '\0' && options->node >= 0 ? NULL : "--node: not a node id";
    }
    if (strcmp(name, "--bytes") == 0) {
        options->bytes = strtoull(value, &end, 10);
        return *end == '\0' && options->bytes >= 1u << 20 ? NULL : "--bytes: at least 1048576";
    }
    if (strcmp(name, "--seconds") == 0) {
        options->seconds = strtod(value, &end);
        return *end == '\0' && options->seconds > 0 && options->seconds <= 600
                   ? NULL
                   : "--seconds: above 0, at most 600";
    }
    return "unknown option";
}

const char *nm_options_read(int count, char **words, struct nm_options *options) {
    memset(options, 0, sizeof *options);
    options->node = -1;
    options->bytes = 1u << 30;
    options->seconds = 1;
    for (int i = 1; i < count; i += 2) {
        if (i + 1 == count) return "an option without its value";
        const char *problem = set(words[i], words[i + 1], options);
        if (problem != NULL) return problem;
    }
    if (options->reader_count == 0) return "--cpus is missing";
    if (options->filler_count == 0) {
        options->filler_count = options->reader_count;
        memcpy(options->fillers, options->readers, sizeof options->readers);
    }
    return NULL;
}
