/* Chooses the table of kernels for this CPU, or the one that RINGFENCE_ISA names. Called by the CPU
 * backend and by rank-bench. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"

extern const rank_kernels rank_baseline_table;
#if defined(__x86_64__)
extern const rank_kernels rank_avx2_table;
extern const rank_kernels rank_avx512_table;
#endif

static const char *const isa_names[] = {"avx512", "avx2", "baseline"}; /* best first */
enum { ISA_COUNT = sizeof isa_names / sizeof *isa_names };

const rank_kernels *rank_kernels_named(const char *name)
{
    if (strcmp(name, "baseline") == 0) {
        return &rank_baseline_table;
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(name, "avx2") == 0 && avx2) {
        return &rank_avx2_table;
    }
    const int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (strcmp(name, "avx512") == 0 && avx512 && avx2) {
        return &rank_avx512_table;
    }
#endif
    return NULL;
}

static const char *forced_isa(void)
{
    const char *name = getenv("RINGFENCE_ISA");
    return name != NULL && name[0] != '\0' ? name : NULL;
}

static const rank_kernels *choose(void)
{
    const char *name = forced_isa();
    const rank_kernels *table = name != NULL ? rank_kernels_named(name) : NULL;
    for (int i = 0; table == NULL && i < ISA_COUNT; i++) {
        table = rank_kernels_named(isa_names[i]);
    }
    return table;
}

const rank_kernels *rank_kernels_get(void)
{
    static const rank_kernels *chosen;
    const rank_kernels *table = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
    if (table == NULL) {
        table = choose(); /* two threads would choose the same table */
        __atomic_store_n(&chosen, table, __ATOMIC_RELEASE);
    }
    return table;
}

base_status rank_kernels_check(base_error *reterr)
{
    const char *name = forced_isa();
    if (name == NULL || rank_kernels_named(name) != NULL) {
        return BASE_OK;
    }
    for (int i = 0; i < ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) == 0) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                             "RINGFENCE_ISA=%s: this processor cannot run it", name);
        }
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "RINGFENCE_ISA=%s: it is one of avx512, avx2 and baseline", name);
}
