/* On the stand-in engine of native/tests: has a weight mirrored, sends some of it to a GPU at each
 * PCI address that is named, and prints a JSON line: from which copy, on which node it lies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stand_in.h"

enum { BYTES = 4 << 20, SENT = 4096, MAX_GPUS = 8 };

static int node_of(const void *address) {
    long page = sysconf(_SC_PAGESIZE);
    void *start = (void *)((size_t)address / (size_t)page * (size_t)page);
    int status = -1;
    syscall(SYS_move_pages, 0, 1L, &start, NULL, &status, 0);
    return status;
}

int main(int argc, char **argv) {
    char *weights = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(weights, 'w', BYTES);
    struct buffer model = {.base = weights, .size = BYTES, .host = true};
    stand_in_mark_weights(&model);
    struct tensor weight = {
        .ne = {256, BYTES / 1024, 1, 1}, .nb = {4, 1024, BYTES, BYTES}, .data = weights};
    float result[64];
    struct tensor product = {.op = OP_MUL_MAT, .data = result, .src = {&weight}};
    for (int graph = 0; graph < 2; ++graph) stand_in_compute(&product, 1, 1);

    static char on_gpu[SENT];
    static struct buffer gpus[MAX_GPUS];
    printf("{");
    for (int i = 1; i < argc && i < MAX_GPUS; ++i) {
        gpus[i] = (struct buffer){.device = 1, .device_id = argv[i]};
        struct tensor to = weight;
        to.buffer = &gpus[i];
        to.data = on_gpu;
        stand_in_upload(&gpus[i], &to, weights + SENT, SENT);
        const char *from = stand_in_booking()->uploaded_from;
        printf("%s\"%s\": [\"%s\", %d]", i > 1 ? ", " : "", argv[i],
               from == weights + SENT ? "primary" : "replica", node_of(from));
    }
    printf("}\n");
    return memcmp(on_gpu, weights, SENT);
}
