/* The environment: lines NAME=value. Whatever they say, what is used later must be in range. */
#include "config.h"
#include "fuzz.h"

static char *lines;

static const char *get(const char *name) {
    static char value[1 << 16];
    size_t length = strlen(name);
    for (char *line = lines; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || line[length] != '=') continue;
        size_t bytes = strcspn(line + length + 1, "\n");
        if (bytes >= sizeof value) return NULL;
        memcpy(value, line + length + 1, bytes);
        value[bytes] = '\0';
        return value;
    }
    return NULL;
}

static void check_copy(const struct nm_copy *copy) {
    if (copy->node_count < 1 || copy->node_count > NM_MAX_NODES_PER_COPY) abort();
    if (memchr(copy->nodes_text, '\0', sizeof copy->nodes_text) == NULL) abort();
    for (int i = 0; i < copy->node_count; ++i)
        if (copy->nodes[i] < 0) abort();
}

static void check(const struct nm_config *config) {
    if (config->active == (config->error != NULL)) abort();
    if (config->copies < 1 || config->copies > NM_MAX_COPIES) abort();
    if (config->home_copy < -1 || config->home_copy >= config->copies) abort();
    if (memchr(config->events, '\0', sizeof config->events) == NULL) abort();
    for (int i = 0; i < config->copies; ++i) check_copy(&config->copy[i]);
    for (int i = 0; i < NM_MAX_CPUS; ++i)
        if (config->copy_of_cpu[i] < -1 || config->copy_of_cpu[i] >= config->copies) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static struct nm_config config;
    lines = fuzz_text(data, bytes);
    nm_config_parse(&config, get);
    if (config.active) check(&config);
    free(lines);
    return 0;
}
