#include "kernels.h"

#include "kernels_tables.h"

typedef struct instruction_set {
    const char *name;
    coll_kernel_table *table;
} instruction_set;

static instruction_set choose(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
        return (instruction_set){"avx512f", &coll_kernels_avx512f};
    }
    if (__builtin_cpu_supports("avx2")) {
        return (instruction_set){"avx2", &coll_kernels_avx2};
    }
#endif
    return (instruction_set){"baseline", &coll_kernels_baseline};
}

const coll_kernel *coll_kernel_find(coll_type type, coll_reduce reduce)
{
    if (type < COLL_FLOAT32 || type > COLL_UINT8 || reduce < COLL_SUM || reduce > COLL_MAX) {
        return NULL;
    }
    return &(*choose().table)[type][reduce];
}

const char *coll_kernel_isa(void)
{
    return choose().name;
}
