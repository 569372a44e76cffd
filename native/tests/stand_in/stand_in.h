/*
 * A stand-in engine: the functions of ggml that the shim meets, over structs of its own layout,
 * with kernels that only book what they were given. It shows the front without a model, under the
 * sanitizers and in loops that count nanoseconds. Real engines are proven in tests/engines.
 */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum op { OP_NONE, OP_ADD = 2, OP_MUL_MAT = 5, OP_MUL_MAT_ID, OP_UP_GATE, OP_CPY, OP_VIEW = 10 };

struct tensor {
    int type;
    void *buffer;
    int64_t ne[4];
    size_t nb[4];
    int32_t op; /* elsewhere than in ggml, on purpose */
    int flags;
    void *data;
    struct tensor *src[4];
    char name[40];
    char tail[48];
};

struct buffer {
    void *base;
    size_t size;
    int usage;
    int device; /* 0 CPU, 1 GPU */
    bool host;
    bool made; /* by the engine, which frees it */
    const char *device_id;
    bool registers; /* its backend pins host memory */
    const char *name;
    struct buffer *parts; /* two, of what is larger than a device allots at once; it has no base */
};

struct graph {
    int nodes;
    struct tensor **node;
};

struct plan {
    int threads;
    int repeat; /* how often each op is computed */
    int rows;   /* that a MUL_MAT_ID reads one by one */
    /* When set, each graph starts its threads anew, and each calls this after each op. */
    void (*after_op)(int ith);
};

struct params {
    int ith, nth, rows;
};

/* What the last kernel read, and how it was called. */
struct booking {
    const void *weight, *second;
    const void *uploaded_from;
    int asked; /* how often a device was asked what it can */
    int calls;
    bool arguments_intact;
    size_t pinned; /* bytes of host memory that are */
};
/* A function, since a variable of a library built with -Bsymbolic is two. */
struct booking *stand_in_booking(void);

/* The engine takes weights whose type is this itself, as repacked and AMX buffers are. */
enum { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_EXTRA = 7, TYPE_TILED = 8, TYPE_BF16 = 30 };

struct buffer *ggml_backend_buft_alloc_buffer(const struct buffer *type, size_t size);
void ggml_backend_buffer_set_usage(struct buffer *buffer, int usage);
void ggml_backend_buffer_free(struct buffer *buffer);
void ggml_backend_buffer_clear(struct buffer *buffer, uint8_t value);
void ggml_backend_tensor_set(struct tensor *tensor, const void *data, size_t offset, size_t size);
void ggml_backend_tensor_set_async(struct buffer *backend, struct tensor *tensor, const void *data,
                                   size_t offset, size_t size);
int ggml_graph_compute(struct graph *graph, struct plan *plan);

/* As libllama would: the calls that an engine makes from outside its compute library. */
void stand_in_mark_weights(struct buffer *buffer);
void stand_in_free(struct buffer *buffer);
int stand_in_compute(struct tensor *op, int threads, int repeat);
int stand_in_compute_by_threads(struct tensor *op, int threads, int repeat,
                                void (*after_op)(int ith));
int stand_in_compute_rows(struct tensor *op, int repeat, int rows);
void stand_in_set(struct tensor *tensor, const void *data, size_t offset, size_t size);
void stand_in_upload(struct buffer *backend, struct tensor *tensor, const void *data, size_t size);
void stand_in_clear(struct buffer *buffer, uint8_t value);

#endif
