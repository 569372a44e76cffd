#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "lock.h"
#include "static_program.h"
#include "thread.h"

enum { MAX_MODULES = 64 };

static struct nm_module modules[MAX_MODULES];
static _Atomic int module_count;
pthread_mutex_t nm_modules_lock = NM_LOCK_INITIALIZER;

enum need { OPTIONAL, REQUIRED, MAINLINE, IQK };

static const struct {
    const char *name;
    enum need need;
} symbols[NM_SYMBOLS] = {
#define X(name, need, ...) [NM_SYM_##name] = {#name, need},
    NM_SEAMS(X) NM_ARGUMENT_SEAMS(X) NM_API(X)
#undef X
#define X(name, need, ...) [NM_SYM_vec_dot_##name] = {"ggml_vec_dot_" #name, need},
        NM_VEC_DOTS(X)
#undef X
};

const char *nm_symbol_name(enum nm_symbol symbol) { return symbols[symbol].name; }

const char *nm_named(const char *path, void *const *real, char *text, size_t bytes) {
    const char *(*version_of)(void) = real[NM_SYM_ggml_version];
    if (version_of == NULL)
        snprintf(text, bytes, "%.255s (of a version that it does not tell)", path);
    else
        snprintf(text, bytes, "%.255s (ggml %.40s)", path, version_of());
    return text;
}

bool nm_needs(void *const *real, enum nm_symbol symbol) {
    bool iqk =
        real[NM_SYM_ggml_cpu_extra_compute_forward] == NULL && real[NM_SYM_iqk_mul_mat] != NULL;
    enum need need = symbols[symbol].need;
    return need == REQUIRED || need == (iqk ? IQK : MAINLINE);
}

const char *nm_lacks(void *const *real) {
    for (int i = 0; i < NM_SYMBOLS; ++i)
        if (real[i] == NULL && nm_needs(real, i)) return symbols[i].name;
    return NULL;
}

static struct nm_module *bound_module_at(const void *address) {
    int count = atomic_load_explicit(&module_count, memory_order_acquire);
    for (int i = 0; i < count; ++i)
        if (nm_module_contains(&modules[i], address)) return &modules[i];
    return NULL;
}

struct extent_query {
    uintptr_t address, low, high;
};

static int find_extent(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct extent_query *query = context;
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
        if (start < low) low = start;
        if (end > high) high = end;
    }
    if (query->address < low || query->address >= high) return 0;
    query->low = low;
    query->high = high;
    return 1;
}

static uintptr_t own_base(void) {
    Dl_info self;
    return dladdr((void *)own_base, &self) != 0 ? (uintptr_t)self.dli_fbase : 0;
}

static bool is_ours(void *function) {
    Dl_info info;
    return dladdr(function, &info) != 0 && (uintptr_t)info.dli_fbase == own_base();
}

void *nm_own_function(enum nm_symbol symbol) {
    Dl_info self;
    if (dladdr((void *)own_base, &self) == 0) return NULL;
    void *handle = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle == NULL ? NULL : dlsym(handle, symbols[symbol].name);
    if (handle != NULL) dlclose(handle);
    return found != NULL && is_ours(found) ? found : NULL;
}

/* dlsym in the module and its dependencies, in which we do not stand; for the main program the
 * search begins with the global scope, in which we do: then the next one after us. A module that
 * lacks a function must not be given another engine's. */
static void *find_real(void *handle, const char *name) {
    void *found = handle == NULL ? NULL : dlsym(handle, name);
    return handle == NULL || (found != NULL && is_ours(found)) ? dlsym(RTLD_NEXT, name) : found;
}

/* musl has none: its programs must start, and are no engines that we know. */
#pragma weak dladdr1

/* RTLD_NODELETE: a module whose code leads here must not be unmapped and its address range given
 * to another while we hold its functions. */
static void *handle_of(const void *address, char *path, size_t bytes) {
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1 == NULL) return NULL;
    if (dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) return NULL;
    bool main_program = map->l_name == NULL || map->l_name[0] == '\0';
    snprintf(path, bytes, "%s", main_program ? info.dli_fname : map->l_name);
    return dlopen(main_program ? NULL : map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static bool has_none(void *const *real) {
    for (int i = 0; i < NM_SYMBOLS; ++i)
        if (real[i] != NULL) return false;
    return true;
}

static bool bind(struct nm_module *module, const void *address) {
    struct extent_query query = {.address = (uintptr_t)address};
    if (dl_iterate_phdr(find_extent, &query) == 0) return false;
    module->low = query.low;
    module->span = query.high - query.low;
    void *handle = handle_of(address, module->path, sizeof module->path);
    module->inside = nm_static_contains(address);
    for (int i = 0; i < NM_SYMBOLS; ++i)
        module->real[i] =
            module->inside ? nm_static_function(i) : find_real(handle, symbols[i].name);
    if (handle != NULL) dlclose(handle);
    module->has_op_seam = module->real[NM_SYM_ggml_cpu_extra_compute_forward] != NULL;
    module->passes_on = module->low == own_base() || has_none(module->real);
    return true;
}

/* The module in the list, NULL when that is full. Two threads may have found the same one. It was
 * found without the lock: the loader has one of its own, which a thread holds that comes here from
 * a library's constructor. */
static struct nm_module *add(const struct nm_module *found, const void *address) {
    pthread_mutex_lock(&nm_modules_lock);
    struct nm_module *module = bound_module_at(address);
    int count = atomic_load_explicit(&module_count, memory_order_relaxed);
    if (module == NULL && count < MAX_MODULES) {
        module = &modules[count];
        memcpy(module, found, sizeof *module);
        atomic_store_explicit(&module_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&nm_modules_lock);
    return module;
}

/* For callers in no known object (generated code) and beyond MAX_MODULES. */
static struct nm_module *stranger(void) {
    static struct nm_module module;
    for (int i = 0; i < NM_SYMBOLS; ++i)
        if (module.real[i] == NULL) module.real[i] = find_real(NULL, symbols[i].name);
    module.passes_on = has_none(module.real);
    return &module;
}

static struct nm_module *last_engine(void) {
    for (int i = atomic_load_explicit(&module_count, memory_order_acquire); i-- > 0;)
        if (!modules[i].passes_on) return &modules[i];
    return NULL;
}

/* The engine whose function ended in a jump to a seam, whose caller is `module`. */
static struct nm_module *engine_behind(struct nm_module *module) {
    struct nm_module *engine = nm_thread.called;
    if (engine == NULL || engine->passes_on) engine = last_engine();
    return engine != NULL ? engine : module;
}

struct nm_module *nm_module_at(const void *address) {
    struct nm_module *module = bound_module_at(address);
    if (module == NULL) {
        int saved = errno;
        struct nm_module found = {0};
        if (bind(&found, address)) module = add(&found, address);
        if (module == NULL) module = stranger();
        errno = saved;
    }
    return module->passes_on ? engine_behind(module) : module;
}

void nm_module_pause(bool pause) {
    int count = atomic_load(&module_count);
    for (int i = 0; i < count; ++i) {
        int from = pause ? NM_ENGINE_READY : NM_ENGINE_PAUSED;
        int to = pause ? NM_ENGINE_PAUSED : NM_ENGINE_READY;
        atomic_compare_exchange_strong(&modules[i].state, &from, to);
    }
}
