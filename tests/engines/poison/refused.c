/* Computes three graphs on a stand-in engine, native/tests/stand_in: a dense weight, and experts
 * that are read one by one. With an argument it then says "ready" and waits for the end of stdin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

enum { BYTES = 4 << 20 };

int main(int argc, char **argv) {
    (void)argv;
    struct buffer model = {.base = malloc(BYTES), .size = BYTES, .host = true};
    memset(model.base, 'w', BYTES);
    stand_in_mark_weights(&model);
    struct tensor weight = {.ne = {256, 2048, 1, 1}, .nb = {4, 1024, BYTES / 2, BYTES / 2}};
    float result[64];
    for (int graph = 0; graph < 3; ++graph)
        for (int op = OP_MUL_MAT; op <= OP_MUL_MAT_ID; ++op) {
            weight.data = (char *)model.base + (op - OP_MUL_MAT) * (BYTES / 2);
            struct tensor product = {.op = op, .data = result, .src = {&weight}};
            stand_in_compute(&product, 1, 1);
        }
    if (argc > 1) {
        puts("ready");
        fflush(stdout);
        while (getchar() != EOF) continue;
    }
    return 0;
}
