#include "layout.h"

#include <string.h>

#include "module.h"

enum { POOL_BYTES = 1 << 15, TYPE_F32 = 0, COLUMNS = 64, ROWS = 8, VECTORS = 3 };

/* Every version has more ops than this and all that we look for among them. */
enum { OPS_TO_ASK = 80 };

/* struct ggml_init_params of ggml.h, the same since 2022 */
struct init_params {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
};

/* The tensors that are looked at. */
struct probe {
    const char *a, *b, *product, *sum;
};

static const char *make_probe(struct probe *probe, void *context, const struct nm_module *m) {
    char *(*new_2d)(void *, int, int64_t, int64_t) = m->real[NM_SYM_ggml_new_tensor_2d];
    char *(*mul_mat)(void *, const char *, const char *) = m->real[NM_SYM_ggml_mul_mat];
    char *(*add)(void *, const char *, const char *) = m->real[NM_SYM_ggml_add];
    probe->a = new_2d(context, TYPE_F32, COLUMNS, ROWS);
    probe->b = new_2d(context, TYPE_F32, COLUMNS, VECTORS);
    const char *c = new_2d(context, TYPE_F32, COLUMNS, VECTORS);
    if (probe->a == NULL || probe->b == NULL || c == NULL) return "ggml_new_tensor_2d";
    probe->product = mul_mat(context, probe->a, probe->b);
    probe->sum = add(context, probe->b, c);
    return probe->product == NULL || probe->sum == NULL ? "ggml_mul_mat" : NULL;
}

/* The one offset at which every tensor holds its value; (size_t)-1 when there is none or several.
 * Values are `width` bytes wide and aligned to it. */
static size_t offset_of(const char *const *tensors, const void *const *values, int count,
                        size_t width, size_t tensor_bytes) {
    size_t found = (size_t)-1;
    for (size_t offset = 0; offset + width <= tensor_bytes; offset += width < 8 ? width : 8) {
        bool all = true;
        for (int i = 0; i < count && all; ++i)
            all = memcmp(tensors[i] + offset, values[i], width) == 0;
        if (!all) continue;
        if (found != (size_t)-1) return (size_t)-1;
        found = offset;
    }
    return found;
}

static bool find_data(struct nm_layout *l, const struct probe *p, const struct nm_module *m) {
    void *(*get_data)(const char *) = m->real[NM_SYM_ggml_get_data];
    const char *tensors[] = {p->a, p->b, p->product};
    void *data[3];
    for (int i = 0; i < 3; ++i) data[i] = get_data(tensors[i]);
    l->data =
        offset_of(tensors, (const void *[]){&data[0], &data[1], &data[2]}, 3, 8, l->tensor_bytes);
    return data[0] != NULL && l->data != (size_t)-1;
}

static bool find_sources(struct nm_layout *l, const struct probe *p) {
    const char *tensors[] = {p->product, p->sum};
    l->src0 = offset_of(tensors, (const void *[]){&p->a, &p->b}, 2, 8, l->tensor_bytes);
    if (l->src0 == (size_t)-1 || l->src0 + 3 * sizeof(void *) > l->tensor_bytes) return false;
    return nm_src(l, p->product, 1) == p->b;
}

static bool find_shape(struct nm_layout *l, const struct probe *p) {
    const char *tensors[] = {p->a, p->b};
    const int64_t ne[2][4] = {{COLUMNS, ROWS, 1, 1}, {COLUMNS, VECTORS, 1, 1}};
    const size_t a = 4 * COLUMNS * ROWS, b = 4 * COLUMNS * VECTORS;
    const size_t nb[2][4] = {{4, 4 * COLUMNS, a, a}, {4, 4 * COLUMNS, b, b}};
    l->ne = offset_of(tensors, (const void *[]){ne[0], ne[1]}, 2, sizeof ne[0], l->tensor_bytes);
    l->nb = offset_of(tensors, (const void *[]){nb[0], nb[1]}, 2, sizeof nb[0], l->tensor_bytes);
    return l->ne != (size_t)-1 && l->nb != (size_t)-1;
}

static bool is_view(const char *name) {
    static const char *const names[] = {"NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* ggml_op_name does not check its argument: ask upwards, and stop at the ops that stand behind
 * everything we need. */
static bool find_ops(struct nm_layout *l, const struct probe *p, const struct nm_module *m) {
    const char *(*name_of)(int) = m->real[NM_SYM_ggml_op_name];
    int add = -1, views = 0;
    l->mul_mat = l->mul_mat_id = l->up_gate = l->moe_up_gate = -1;
    for (int op = 0;
         op < OPS_TO_ASK && (add < 0 || l->mul_mat < 0 || l->mul_mat_id < 0 || views < 5); ++op) {
        const char *name = name_of(op);
        if (name == NULL) return false;
        if (strcmp(name, "ADD") == 0) add = op;
        if (strcmp(name, "MUL_MAT") == 0) l->mul_mat = op;
        if (strcmp(name, "MUL_MAT_ID") == 0) l->mul_mat_id = op;
        if (strcmp(name, "FUSED_UP_GATE") == 0) l->up_gate = op;
        if (strcmp(name, "MOE_FUSED_UP_GATE") == 0) l->moe_up_gate = op;
        if (is_view(name)) {
            l->moves_no_bytes[op] = true;
            ++views;
        }
    }
    const char *tensors[] = {p->product, p->sum};
    l->op =
        offset_of(tensors, (const void *[]){&l->mul_mat, &add}, 2, sizeof(int), l->tensor_bytes);
    return l->op != (size_t)-1;
}

static const char *measure(struct nm_layout *l, void *context, const char *pool,
                           const struct nm_module *m) {
    struct probe probe;
    const char *failed = make_probe(&probe, context, m);
    if (failed != NULL) return failed;
    size_t (*overhead)(void) = m->real[NM_SYM_ggml_tensor_overhead];
    size_t object_header = (size_t)(probe.a - pool);
    l->tensor_bytes = overhead() - object_header;
    if (object_header > 256 || l->tensor_bytes < 128 || l->tensor_bytes > NM_TENSOR_MAX)
        return "the size of struct ggml_tensor";
    if (!find_data(l, &probe, m)) return "ggml_tensor.data";
    if (!find_sources(l, &probe)) return "ggml_tensor.src";
    if (!find_shape(l, &probe)) return "ggml_tensor.ne and nb";
    if (!find_ops(l, &probe, m)) return "ggml_tensor.op";
    return NULL;
}

const char *nm_layout_measure(struct nm_layout *layout, const struct nm_module *module) {
    void *(*init)(struct init_params) = module->real[NM_SYM_ggml_init];
    void (*release)(void *) = module->real[NM_SYM_ggml_free];
    static _Alignas(64) char pool[POOL_BYTES]; /* under the registry's lock */
    memset(pool, 0, sizeof pool);
    void *context = init((struct init_params){.mem_size = POOL_BYTES, .mem_buffer = pool});
    const char *failed = "ggml_init";
    if (context != NULL) {
        failed = measure(layout, context, pool, module);
        release(context);
    }
    return failed;
}
