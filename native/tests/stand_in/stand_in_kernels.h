/* Of the stand-in's compute library, from one of its files to another. Files apart, as in ggml:
 * within one, a compiler may fit a call to what it calls. */
#ifndef STAND_IN_KERNELS_H
#define STAND_IN_KERNELS_H

#include "stand_in.h"

typedef void vec_dot(int n, float *s, size_t bs, const void *row, size_t bx, const void *y,
                     size_t by, int rows);
vec_dot ggml_vec_dot_f32, ggml_vec_dot_f16;

/* As ggml's table of types. */
extern vec_dot *const stand_in_dots[2];

void ggml_compute_forward_mul_mat_id_tiled(const struct params *params, struct tensor *op, long a,
                                           long b, long c, long d, long e, long f);

#ifdef STAND_IN_IQK
bool iqk_mul_mat(long rows, long n, long k, int type, const void *weight, long stride, int type_b,
                 const void *b, long stride_b, float *c, long stride_c, int ith, int nth);
bool iqk_mul_mat_moe(long rows, long n, long k, int ne11, int type, const void *weight, long stride,
                     int type_b, const void *b, long stride_b, float *c, long nb1, long nb2,
                     const void *map, int ith, int nth);
bool iqk_moe_fused_up_gate(long rows, long n, long k, int ne11, int unary, int type, const void *up,
                           const void *gate, long stride, int type_b, const void *b, long stride_b,
                           const char *up_b, const char *gate_b, float *c, long nb1, long nb2,
                           const void *map, float limit, int ith, int nth);
#else
void ggml_compute_forward_mul_mat(const struct params *params, struct tensor *op);
bool ggml_cpu_extra_compute_forward(const struct params *params, struct tensor *op);
#endif

#endif
