/* Finds the kernel of a type and operation for the best instruction set of this CPU. Called by
 * op_init.c for each operation, and by the calibration. */
#include "kernels/kernels.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "common/kinds.h"
#include "kernels/tables.h"

enum { SETS_MAX = 3 };

typedef struct instruction_set {
    const char *name;
    coll_kernel_table *table;
} instruction_set;

#if defined(__x86_64__)
/* Conversions between float16 and float32. Asked once: in a virtual machine CPUID costs
 * microseconds. */
static bool has_f16c(void)
{
    static atomic_int answer; /* 0: not asked yet, 1: no, 2: yes */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known == 0) {
        unsigned a = 0;
        unsigned b = 0;
        unsigned c = 0;
        unsigned d = 0;
        known = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0 ? 2 : 1;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known == 2;
}
#endif

/* What this processor has, the best last. */
static int list_sets(instruction_set *sets)
{
    int count = 0;
    sets[count++] = (instruction_set){"baseline", &coll_kernels_baseline};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && has_f16c()) {
        sets[count++] = (instruction_set){"avx2", &coll_kernels_avx2};
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
        sets[count++] = (instruction_set){"avx512f", &coll_kernels_avx512f};
    }
#endif
    return count;
}

static bool is_known(coll_type type, coll_reduce_op reduce)
{
    return type >= COLL_FLOAT32 && type <= COLL_TYPE_LAST && reduce >= COLL_SUM &&
           reduce <= COLL_REDUCE_OP_LAST && coll_reduce_op_takes(reduce, type);
}

const coll_kernel *coll_kernel_find(coll_type type, coll_reduce_op reduce)
{
    instruction_set sets[SETS_MAX];
    const int count = list_sets(sets);
    return is_known(type, reduce) ? &(*sets[count - 1].table)[type][reduce] : NULL;
}

const coll_kernel *coll_kernel_find_in(int index, coll_type type, coll_reduce_op reduce,
                                       const char **name)
{
    instruction_set sets[SETS_MAX];
    const int count = list_sets(sets);
    if (index >= count || !is_known(type, reduce)) {
        return NULL;
    }
    *name = sets[index].name;
    return &(*sets[index].table)[type][reduce];
}

const char *coll_kernel_isa(void)
{
    instruction_set sets[SETS_MAX];
    return sets[list_sets(sets) - 1].name;
}
