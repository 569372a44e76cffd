/*
 * Test only. Preloaded before the shim, it lets ik_llama.cpp find none of its own kernels for plain
 * and expert products, so that it falls back on ggml_vec_dot_*, as a build without them would.
 */
#include <stdbool.h>

__attribute__((visibility("default"))) bool iqk_mul_mat_4d(void) { return false; }
__attribute__((visibility("default"))) bool iqk_mul_mat_moe(void) { return false; }
