#include "stand_in_kernels.h"

static void book_it(const void *weight, const void *second, bool intact) {
    struct booking *booking = stand_in_booking();
    booking->weight = weight;
    booking->second = second;
    ++booking->calls;
    booking->arguments_intact = intact;
}

/* By a pointer, as the real ones reach their kernels: no compiler knows what they change. */
static void (*volatile book)(const void *, const void *, bool) = book_it;

void ggml_vec_dot_f32(int n, float *s, size_t bs, const void *row, size_t bx, const void *y,
                      size_t by, int rows) {
    book(row, NULL, n == 1 && bs == 3 && bx == 4 && y == s && by == 6 && rows == 7);
}

void ggml_vec_dot_f16(int n, float *s, size_t bs, const void *row, size_t bx, const void *y,
                      size_t by, int rows) {
    book(row, NULL, n == 2 && bs == 3 && bx == 4 && y == s && by == 6 && rows == 7);
}

vec_dot *const stand_in_dots[2] = {ggml_vec_dot_f32, ggml_vec_dot_f16};

/* As large as the real one is: more arguments than registers. */
void ggml_compute_forward_mul_mat_id_tiled(const struct params *params, struct tensor *op, long a,
                                           long b, long c, long d, long e, long f) {
    bool names = op->src[2] != NULL; /* `a` is then the expert */
    book((char *)op->src[0]->data + (names ? (size_t)a * op->src[0]->nb[2] : 0), NULL,
         params->nth > 0 && (a == 3 || names) && b == 4 && c == 5 && d == 6 && e == 7 && f == 8);
}

#ifdef STAND_IN_IQK
bool iqk_mul_mat(long rows, long n, long k, int type, const void *weight, long stride, int type_b,
                 const void *b, long stride_b, float *c, long stride_c, int ith, int nth) {
    book(weight, NULL,
         n == 2 && k == 3 && (type == 4 || type == TYPE_F16 || type == TYPE_BF16) && type_b == 7 &&
             b == c && stride_b == 9 && stride_c == 11 && ith < nth);
    return rows * stride > 0;
}

bool iqk_mul_mat_moe(long rows, long n, long k, int ne11, int type, const void *weight, long stride,
                     int type_b, const void *b, long stride_b, float *c, long nb1, long nb2,
                     const void *map, int ith, int nth) {
    book(weight, NULL,
         n == 2 && k == 3 && ne11 == 4 && type == 5 && type_b == 8 && b == c && stride_b == 10 &&
             nb1 == 12 && nb2 == 13 && map == c && ith < nth);
    return rows * stride > 0;
}

bool iqk_moe_fused_up_gate(long rows, long n, long k, int ne11, int unary, int type, const void *up,
                           const void *gate, long stride, int type_b, const void *b, long stride_b,
                           const char *up_b, const char *gate_b, float *c, long nb1, long nb2,
                           const void *map, float limit, int ith, int nth) {
    book(up, gate,
         n == 2 && k == 3 && ne11 == 4 && unary == 5 && type == 6 && type_b == 10 && b == c &&
             stride_b == 12 && up_b == gate_b && nb1 == 16 && nb2 == 17 && map == c &&
             limit == 0.5f && ith < nth);
    return rows * stride > 0;
}
#else
void ggml_compute_forward_mul_mat(const struct params *params, struct tensor *op) {
    book(op->src[0]->data, NULL, params->nth > 0);
}

bool ggml_cpu_extra_compute_forward(const struct params *params, struct tensor *op) {
    if (op->op == OP_NONE || op->src[0]->type != TYPE_EXTRA) return false;
    book(op->src[0]->data, NULL, params->nth > 0);
    return true;
}

#ifdef STAND_IN_OPS_INSIDE
bool extra_inside(const struct params *params, struct tensor *op)
    __attribute__((alias("ggml_cpu_extra_compute_forward"), visibility("hidden")));
#endif
#endif
