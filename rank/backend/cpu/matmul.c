/* Matrix products by oneDNN on one thread. Also names its version and instruction set for the
 * record. Called by cpu.c. */
#include "backend/cpu/matmul.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"

static pthread_once_t init_once = PTHREAD_ONCE_INIT;

/* omp_set_num_threads; NULL: there is none, or it is not to be called. */
static void (*set_threads)(int);

/* oneDNN is built with OpenMP, and uses every core by default. The setting belongs to a thread. The
 * symbol comes with the library, so nothing here needs to be built with OpenMP. */
static void find_set_threads(void)
{
    if (getenv("OMP_NUM_THREADS") == NULL) {
        void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
        memcpy(&set_threads, &symbol, sizeof symbol);
    }
}

void rank_matmul_use_one_thread(void)
{
    if (set_threads != NULL) {
        set_threads(1);
    }
}

static void init(void)
{
    const char *name = rank_kernels_get()->name;
    /* If it is too late, or the library does not know the value, the library keeps its own choice,
     * which is recorded. */
    if (strcmp(name, "baseline") == 0) {
        (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
    } else if (strcmp(name, "avx2") == 0) {
        (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
    }
    (void)dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict);
    find_set_threads();
}

void rank_matmul_init(void)
{
    (void)pthread_once(&init_once, init);
}

base_status rank_matmul_run(const rank_matmul *args, base_error *reterr)
{
    const char trans_a = args->kind == RANK_MATMUL_TN ? 'T' : 'N';
    const char trans_b = args->kind == RANK_MATMUL_NT ? 'T' : 'N';
    if (args->rows == 0 || args->columns == 0) {
        return BASE_OK;
    }
    if (args->depth == 0) {
        if (args->accumulate) {
            return BASE_OK;
        }
        memset(args->c, 0, args->rows * args->columns * sizeof *args->c);
        return BASE_OK;
    }
    const size_t lda = trans_a == 'N' ? args->depth : args->rows;
    const size_t ldb = trans_b == 'N' ? args->columns : args->depth;
    const dnnl_status_t status = dnnl_sgemm(
        trans_a, trans_b, (dnnl_dim_t)args->rows, (dnnl_dim_t)args->columns,
        (dnnl_dim_t)args->depth, 1.0f, args->a, (dnnl_dim_t)lda, args->b, (dnnl_dim_t)ldb,
        args->accumulate ? 1.0f : 0.0f, args->c, (dnnl_dim_t)args->columns);
    if (status != dnnl_success) {
        return base_fail(reterr, status == dnnl_out_of_memory ? BASE_ERR_MEMORY : BASE_ERR_STATE,
                         "oneDNN: matrix product %zu×%zu×%zu failed with status %d", args->rows,
                         args->columns, args->depth, (int)status);
    }
    return BASE_OK;
}

static const char *isa_name(dnnl_cpu_isa_t isa)
{
    switch (isa) {
    case dnnl_cpu_isa_sse41:
        return "sse41";
    case dnnl_cpu_isa_avx:
        return "avx";
    case dnnl_cpu_isa_avx2:
        return "avx2";
    case dnnl_cpu_isa_avx512_core:
        return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
        return "avx512_core_amx";
    default:
        return "other";
    }
}

static char library_name[64];
static pthread_once_t name_once = PTHREAD_ONCE_INIT;

static void make_name(void)
{
    rank_matmul_init();
    const dnnl_version_t *version = dnnl_version();
    (void)snprintf(library_name, sizeof library_name, "oneDNN %d.%d.%d %s", version->major,
                   version->minor, version->patch, isa_name(dnnl_get_effective_cpu_isa()));
}

const char *rank_matmul_library(void)
{
    (void)pthread_once(&name_once, make_name);
    return library_name;
}
