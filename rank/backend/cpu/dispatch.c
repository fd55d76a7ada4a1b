/* Chooses the table of kernels for this CPU, or the one that RINGFENCE_ISA names. Called by the CPU
 * backend and by rank-bench. */
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "backend/cpu/kernels.h"

extern const rank_kernels rank_baseline_table;
#if defined(__x86_64__)
extern const rank_kernels rank_avx2_table;
extern const rank_kernels rank_avxvnni_table;
extern const rank_kernels rank_avx512_table;
extern const rank_kernels rank_avx512vnni_table;
#elif defined(__aarch64__)
extern const rank_kernels rank_neon_table;
#endif

static const char *const isa_names[] = {"avx512vnni", "avx512", "avxvnni",
                                        "avx2",       "neon",   "baseline"};
enum { ISA_COUNT = sizeof isa_names / sizeof *isa_names };

#if defined(__x86_64__)
/* Which compilers have no word for. */
static bool has_avxvnni(void)
{
    unsigned eax = 0;
    unsigned rest[3];
    return __get_cpuid_count(7, 1, &eax, &rest[0], &rest[1], &rest[2]) != 0 && (eax >> 4 & 1) != 0;
}
#endif

/* What this processor has, the best last. Returns how many. */
static int list_tables(const rank_kernels *tables[ISA_COUNT])
{
    int count = 0;
    tables[count++] = &rank_baseline_table;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return count;
    }
    tables[count++] = &rank_avx2_table;
    if (has_avxvnni()) {
        tables[count++] = &rank_avxvnni_table;
    }
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")) {
        return count;
    }
    tables[count++] = &rank_avx512_table;
    if (__builtin_cpu_supports("avx512vnni")) {
        tables[count++] = &rank_avx512vnni_table;
    }
#elif defined(__aarch64__)
    tables[count++] = &rank_neon_table;
#endif
    return count;
}

const rank_kernels *rank_kernels_at(int index)
{
    const rank_kernels *tables[ISA_COUNT];
    return index < list_tables(tables) ? tables[index] : NULL;
}

const rank_kernels *rank_kernels_named(const char *name)
{
    const rank_kernels *tables[ISA_COUNT];
    for (int i = list_tables(tables) - 1; i >= 0; i--) {
        if (strcmp(name, tables[i]->name) == 0) {
            return tables[i];
        }
    }
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
    const rank_kernels *tables[ISA_COUNT];
    const int count = list_tables(tables);
    const rank_kernels *table = name != NULL ? rank_kernels_named(name) : NULL;
    return table != NULL ? table : tables[count - 1];
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
                     "RINGFENCE_ISA=%s: it is one of avx512vnni, avx512, avxvnni, avx2, neon and "
                     "baseline",
                     name);
}
