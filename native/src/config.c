#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(NM_MAX_COPIES <= INT8_MAX, "copy_of_cpu holds a copy's index in an int8_t");

struct nm_config nm_config;

/* Reads a decimal in [0, max] at *text and moves past it. */
static bool read_number(const char **text, long max, long *value) {
    if (!isdigit((unsigned char)**text)) return false;
    char *end;
    errno = 0;
    *value = strtol(*text, &end, 10);
    *text = end;
    return errno == 0 && *value <= max;
}

static bool read_whole_number(const char *text, long max, long *value) {
    return read_number(&text, max, value) && *text == '\0';
}

/* Reads "0,2-3" up to a character of `stop`, calling `add` with each member. */
static bool read_list(const char **text, const char *stop, long max,
                      bool (*add)(struct nm_config *, int, long), struct nm_config *config,
                      int copy) {
    while (**text != '\0' && strchr(stop, **text) == NULL) {
        long low, high;
        if (!read_number(text, max, &low)) return false;
        high = low;
        if (**text == '-') {
            ++*text;
            if (!read_number(text, max, &high) || high < low) return false;
        }
        for (long member = low; member <= high; ++member)
            if (!add(config, copy, member)) return false;
        if (**text == ',') ++*text;
    }
    return true;
}

static bool add_node(struct nm_config *config, int copy, long node) {
    struct nm_copy *c = &config->copy[copy];
    if (c->node_count == NM_MAX_NODES_PER_COPY) return false;
    c->nodes[c->node_count++] = (int)node;
    if (node == config->home) config->home_copy = copy;
    return true;
}

static bool add_cpu(struct nm_config *config, int copy, long cpu) {
    if (config->copy_of_cpu[cpu] >= 0) return false;
    config->copy_of_cpu[cpu] = (int8_t)copy;
    ++config->copy[copy].cpu_count;
    return true;
}

static bool add_core(struct nm_config *config, int unused, long cpu) {
    (void)unused;
    int copy = config->copy_of_cpu[cpu];
    if (copy >= 0 && !config->is_core[cpu]) ++config->copy[copy].core_count;
    config->is_core[cpu] = true;
    return true;
}

/* "0-7": one CPU of each physical core. A copy of whose cores nothing is said has one per CPU. */
static bool read_cores(struct nm_config *config, const char *text) {
    if (text != NULL && !read_list(&text, "", NM_MAX_CPUS - 1, add_core, config, 0)) return false;
    for (int cpu = 0; cpu < NM_MAX_CPUS; ++cpu) {
        int copy = config->copy_of_cpu[cpu];
        if (copy >= 0 && config->copy[copy].core_count == 0) config->is_core[cpu] = true;
    }
    for (int copy = 0; copy < config->copies; ++copy)
        if (config->copy[copy].core_count == 0)
            config->copy[copy].core_count = config->copy[copy].cpu_count;
    return true;
}

/* "0-3,6", as far as whole numbers fit. */
static void name_by_ranges(struct nm_copy *copy) {
    size_t used = 0;
    for (int first = 0, last; first < copy->node_count; first = last + 1) {
        char part[32];
        const int *nodes = copy->nodes;
        for (last = first; last + 1 < copy->node_count && nodes[last + 1] == nodes[last] + 1;)
            ++last;
        size_t bytes =
            (size_t)snprintf(part, sizeof part, "%s%d", used > 0 ? "," : "", nodes[first]);
        if (last > first)
            bytes += (size_t)snprintf(part + bytes, sizeof part - bytes, "-%d", nodes[last]);
        if (used + bytes >= sizeof copy->nodes_text) return;
        memcpy(copy->nodes_text + used, part, bytes + 1);
        used += bytes;
    }
}

/* As the launcher has it, "0,1", where that fits. */
static void name_nodes(struct nm_copy *copy, const char *start, const char *end) {
    size_t length = (size_t)(end - start);
    if (length < sizeof copy->nodes_text)
        memcpy(copy->nodes_text, start, length);
    else
        name_by_ranges(copy);
}

/* "0=0-7;1=8-15" */
static bool read_copies(struct nm_config *config, const char *text) {
    while (*text != '\0') {
        if (config->copies == NM_MAX_COPIES) return false;
        int copy = config->copies++;
        const char *start = text;
        if (!read_list(&text, "=", INT_MAX, add_node, config, copy) || *text != '=') return false;
        if (config->copy[copy].node_count == 0) return false;
        name_nodes(&config->copy[copy], start, text);
        ++text;
        if (!read_list(&text, ";", NM_MAX_CPUS - 1, add_cpu, config, copy)) return false;
        if (*text == ';') ++text;
    }
    return config->copies > 0;
}

static void rehearse(struct nm_config *config, long copies) {
    config->rehearsal = (unsigned)copies;
    config->copies = (int)copies;
    config->home_copy = 0;
    for (int copy = 0; copy < config->copies; ++copy) {
        config->copy[copy].nodes[0] = copy;
        config->copy[copy].node_count = 1;
        config->copy[copy].nodes_text[0] = (char)('0' + copy % 10);
    }
}

static bool flag(const char *value) { return value != NULL && strcmp(value, "1") == 0; }

static const char *read_all(struct nm_config *config, const char *(*get)(const char *)) {
    long number;
    const char *value = get("NUMAMIRROR_HOME_NODE");
    if (value != NULL && !read_whole_number(value, INT_MAX, &number))
        return "NUMAMIRROR_HOME_NODE is not a node id";
    if (value != NULL) config->home = (int)number;

    if ((value = get("NUMAMIRROR_MIN_BYTES")) != NULL) {
        if (!read_whole_number(value, LONG_MAX, &number))
            return "NUMAMIRROR_MIN_BYTES is not a number of bytes";
        config->min_bytes = (size_t)number;
    }
    if ((value = get("NUMAMIRROR_BUDGET_BYTES")) != NULL) {
        if (!read_whole_number(value, LONG_MAX, &number))
            return "NUMAMIRROR_BUDGET_BYTES is not a number of bytes";
        config->budget_bytes = (size_t)number;
    }
    if ((value = get("NUMAMIRROR_ADAPT")) != NULL) {
        if (!read_whole_number(value, 1 << 20, &number))
            return "NUMAMIRROR_ADAPT is not a number of tokens";
        config->adapt_tokens = (unsigned)number;
    }
    if ((value = get("NUMAMIRROR_SRC_NODE")) != NULL) {
        if (!read_whole_number(value, INT_MAX, &number)) return "NUMAMIRROR_SRC_NODE is no node id";
        config->source_node = (int)number;
    }
    if ((value = get("NUMAMIRROR_REHEARSE")) != NULL) {
        if (!read_whole_number(value, 8, &number) || number < 1)
            return "NUMAMIRROR_REHEARSE is not a number from 1 to 8";
        rehearse(config, number);
    } else {
        value = get("NUMAMIRROR_COPIES");
        if (value == NULL || !read_copies(config, value)) return "NUMAMIRROR_COPIES cannot be read";
    }
    if (!read_cores(config, get("NUMAMIRROR_CORES"))) return "NUMAMIRROR_CORES cannot be read";
    if ((value = get("NUMAMIRROR_EVENTS")) != NULL) {
        bool channel = value[0] == '@' || (value[0] == '/' && strchr(value, '#') != NULL);
        if (!channel || strlen(value) >= sizeof config->events)
            return "NUMAMIRROR_EVENTS is no abstract socket and no pipe";
        strcpy(config->events, value);
    }
    if ((value = get("NUMAMIRROR_STRATEGY")) != NULL) {
        config->shard = strcmp(value, "shard") == 0;
        config->observe = strcmp(value, "observe") == 0;
        config->interleave = strcmp(value, "interleave") == 0;
        if (!config->shard && !config->observe && !config->interleave &&
            strcmp(value, "mirror") != 0)
            return "NUMAMIRROR_STRATEGY is none of mirror, shard, interleave and observe";
    }
    config->pin = config->shard || flag(get("NUMAMIRROR_PIN"));
    value = get("NUMAMIRROR_HEAL");
    config->heal = value == NULL || flag(value);
    config->copy_home = flag(get("NUMAMIRROR_COPY_HOME"));
    config->check_owners = flag(get("NUMAMIRROR_TEST_OWNERS"));
    config->no_redirect = flag(get("NUMAMIRROR_TEST_NO_REDIRECT"));
    config->log = flag(get("NUMAMIRROR_LOG"));
    return NULL;
}

void nm_config_parse(struct nm_config *config, const char *(*get)(const char *name)) {
    memset(config, 0, sizeof *config);
    memset(config->copy_of_cpu, -1, sizeof config->copy_of_cpu);
    config->home = -1;
    config->home_copy = -1;
    config->source_node = -1;
    config->min_bytes = 1 << 20;
    const char *abi = get("NUMAMIRROR_ABI");
    if (abi == NULL) return;
    config->error = strcmp(abi, "1") != 0 ? "NUMAMIRROR_ABI is not a version that this shim knows"
                                          : read_all(config, get);
    config->active = config->error == NULL;
}
