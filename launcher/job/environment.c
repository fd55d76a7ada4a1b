/* Which variables a rank gets. Called by spawn.c before the fork. */
#include "job/environment.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where things are, how text is written, and what the budget's client, NCCL and CUDA read. Of NCCL
 * and CUDA all is passed, and stands in the rank's record. A name that ends in _ stands for all
 * that begin so. */
static const char *const passed[] = {
    "PATH",           "HOME",         "USER",
    "LOGNAME",        "TMPDIR",       "TZ",
    "LANG",           "LC_",          "TERM",
    "XDG_STATE_HOME", "RINGFENCE_",   "BUDGET_SERVICE_",
    "NCCL_",          "CUDA_",        "CUBLAS_",
    "CUBLASLT_",      "NVIDIA_",
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    "ASAN_OPTIONS",   "LSAN_OPTIONS", "TSAN_OPTIONS",
    "UBSAN_OPTIONS",
#endif
};

/* These make libraries load other ones, by a path. */
static const char *const kept_back[] = {
    "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN",     "NCCL_PROFILER_PLUGIN",
    "NCCL_ENV_PLUGIN", "CUDA_INJECTION64_PATH", "NVIDIA_PROCESS_INJECTION_CRASH_REPORT",
};

/* Says that torchrun's store listens at MASTER_PORT. A rank has a MASTER_PORT of its own. */
static const char torchrun_store[] = "TORCHELASTIC_USE_AGENT_STORE=";

static bool is_named(const char *variable, size_t length, const char *name)
{
    const size_t known = strlen(name);
    const bool prefix = name[known - 1] == '_';
    return (prefix ? length >= known : length == known) && memcmp(variable, name, known) == 0;
}

bool launch_environment_passes(const char *variable)
{
    const size_t length = strcspn(variable, "=");
    bool passes = false;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        passes = passes || is_named(variable, length, passed[i]);
    }
    for (size_t i = 0; i < sizeof kept_back / sizeof *kept_back; i++) {
        passes = passes && !is_named(variable, length, kept_back[i]);
    }
    return passes;
}

static bool same_name(const char *a, const char *b)
{
    const size_t length = strcspn(a, "=");
    return strncmp(a, b, length + 1) == 0;
}

char **launch_environment_make(char *const *given, char *const *ours, int count, bool is_reduced)
{
    size_t inherited = 0;
    while (given[inherited] != NULL) {
        inherited++;
    }
    char **made = calloc(inherited + (size_t)count + 1, sizeof made[0]);
    if (made == NULL) {
        return NULL;
    }
    size_t used = 0;
    for (size_t i = 0; i < inherited; i++) {
        bool replaced = (is_reduced && !launch_environment_passes(given[i])) ||
                        strncmp(given[i], torchrun_store, sizeof torchrun_store - 1) == 0;
        for (int j = 0; j < count && !replaced; j++) {
            replaced = same_name(given[i], ours[j]);
        }
        if (!replaced) {
            made[used++] = given[i];
        }
    }
    for (int j = 0; j < count; j++) {
        made[used++] = ours[j];
    }
    return made;
}
