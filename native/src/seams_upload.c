/* The seams through which tensors are set: to weights, whose replicas then follow, and from
 * weights, when the engine uploads them to a GPU. */
#include <stdint.h>

#include "seam.h"
#include "unwritten.h"
#include "upload.h"

NM_EXPORT void ggml_backend_tensor_set(void *tensor, const void *data, size_t offset,
                                       size_t bytes) {
    struct nm_module *m = nm_caller_module(NM_CALLER());
    void (*real)(void *, const void *, size_t, size_t) = m->real[NM_SYM_ggml_backend_tensor_set];
    nm_before_set(m, tensor, offset);
    struct nm_upload upload = nm_upload_begin(m, NULL, tensor, data, bytes);
    if (real != NULL) real(tensor, upload.from, offset, bytes);
    nm_upload_end(&upload);
    nm_refresh_tensor(m, tensor, offset, bytes);
}

NM_EXPORT void ggml_backend_tensor_set_async(void *backend, void *tensor, const void *data,
                                             size_t offset, size_t bytes) {
    struct nm_module *m = nm_caller_module(NM_CALLER());
    void (*real)(void *, void *, const void *, size_t, size_t) =
        m->real[NM_SYM_ggml_backend_tensor_set_async];
    struct nm_upload upload = nm_upload_begin(m, backend, tensor, data, bytes);
    if (real != NULL) real(backend, tensor, upload.from, offset, bytes);
    nm_upload_end(&upload);
    nm_refresh_tensor(m, tensor, offset, bytes);
}

/* Rows of the same length at a stride: what lies between the first and the last is taken too. */
static size_t reach(size_t bytes, size_t rows, size_t stride) {
    return rows == 0 ? 0 : (rows - 1) * stride + bytes;
}

NM_EXPORT void ggml_backend_tensor_set_2d(void *tensor, const void *data, size_t offset,
                                          size_t bytes, size_t rows, size_t stride,
                                          size_t data_stride) {
    struct nm_module *m = nm_caller_module(NM_CALLER());
    void (*real)(void *, const void *, size_t, size_t, size_t, size_t, size_t) =
        m->real[NM_SYM_ggml_backend_tensor_set_2d];
    size_t read = reach(bytes, rows, data_stride);
    struct nm_upload upload = nm_upload_begin(m, NULL, tensor, data, read);
    if (real != NULL) real(tensor, upload.from, offset, bytes, rows, stride, data_stride);
    nm_upload_end(&upload);
    nm_refresh_tensor(m, tensor, offset, reach(bytes, rows, stride));
}

NM_EXPORT void ggml_backend_tensor_set_2d_async(void *backend, void *tensor, const void *data,
                                                size_t offset, size_t bytes, size_t rows,
                                                size_t stride, size_t data_stride) {
    struct nm_module *m = nm_caller_module(NM_CALLER());
    void (*real)(void *, void *, const void *, size_t, size_t, size_t, size_t, size_t) =
        m->real[NM_SYM_ggml_backend_tensor_set_2d_async];
    size_t read = reach(bytes, rows, data_stride);
    struct nm_upload upload = nm_upload_begin(m, backend, tensor, data, read);
    if (real != NULL) real(backend, tensor, upload.from, offset, bytes, rows, stride, data_stride);
    nm_upload_end(&upload);
    nm_refresh_tensor(m, tensor, offset, reach(bytes, rows, stride));
}

NM_EXPORT void ggml_backend_tensor_memset(void *tensor, uint8_t value, size_t offset,
                                          size_t bytes) {
    struct nm_module *m = nm_caller_module(NM_CALLER());
    void (*real)(void *, uint8_t, size_t, size_t) = m->real[NM_SYM_ggml_backend_tensor_memset];
    if (real != NULL) real(tensor, value, offset, bytes);
    nm_refresh_tensor(m, tensor, offset, bytes);
}
