/* A client of PMIx, through libpmix.so.2, which is loaded where PMIx has started the launcher: by
 * Open MPI's mpirun, or srun --mpi=pmix. Called through launch_store_kind.
 *
 * The declarations are the part of the library's stable interface that is needed here: pmix.h of
 * version 2 to 5. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/store.h"

enum {
    PMIX_OK = 0,
    PMIX_TYPE_BOOL = 1,
    PMIX_TYPE_STRING = 3,
    PMIX_TYPE_UINT32 = 14,
    PMIX_SCOPE_GLOBAL = 3,
    PMIX_NAMESPACE_BYTES = 256,
    PMIX_KEY_BYTES = 512,
};

#define PMIX_RANK_ALL (UINT32_MAX - 1)

typedef struct pmix_process {
    char name_space[PMIX_NAMESPACE_BYTES];
    uint32_t rank;
} pmix_process;

typedef struct pmix_value {
    uint16_t type;
    union {
        bool flag;
        char *string;
        uint32_t uint32;
        struct {
            void *pointers[3]; /* as large as the largest of them */
        } any;
    } data;
} pmix_value;

typedef struct pmix_info {
    char key[PMIX_KEY_BYTES];
    uint32_t flags;
    pmix_value value;
} pmix_info;

_Static_assert(sizeof(pmix_process) == 260 && sizeof(pmix_value) == 8 + 3 * sizeof(void *),
               "as in pmix_common.h");

typedef struct pmix_library {
    void *handle;
    int (*init)(pmix_process *process, const pmix_info *info, size_t count);
    int (*finalize)(const pmix_info *info, size_t count);
    int (*put)(uint8_t scope, const char *key, pmix_value *value);
    int (*commit)(void);
    int (*fence)(const pmix_process *processes, size_t count, const pmix_info *info,
                 size_t info_count, void (*done)(int status, void *data), void *data);
    int (*get)(const pmix_process *process, const char *key, const pmix_info *info, size_t count,
               pmix_value **value);
    const char *(*error_text)(int status);
} pmix_library;

typedef struct pmix_client {
    pmix_library library;
    pmix_process own;
    int done_fd;      /* an eventfd: the fence's end */
    int fence_status; /* valid after it */
    bool waits;       /* in a fence that has not ended */
} pmix_client;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    {"PMIx_Init", offsetof(pmix_library, init)},
    {"PMIx_Finalize", offsetof(pmix_library, finalize)},
    {"PMIx_Put", offsetof(pmix_library, put)},
    {"PMIx_Commit", offsetof(pmix_library, commit)},
    {"PMIx_Fence_nb", offsetof(pmix_library, fence)},
    {"PMIx_Get", offsetof(pmix_library, get)},
    {"PMIx_Error_string", offsetof(pmix_library, error_text)},
};

static base_status load(pmix_library *library, base_error *reterr)
{
    library->handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "PMIx has started this launcher, but %s (Debian: libpmix2)", dlerror());
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *found = dlsym(library->handle, functions[i].name);
        if (found == NULL) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED, "libpmix.so.2 has no %s",
                             functions[i].name);
        }
        memcpy((char *)library + functions[i].offset, &found, sizeof found);
    }
    return BASE_OK;
}

static base_status check(const pmix_client *pmix, int result, const char *what, base_error *reterr)
{
    return result == PMIX_OK ? BASE_OK
                             : base_fail(reterr, BASE_ERR_PEER, "PMIx: %s: %s", what,
                                         pmix->library.error_text(result));
}

/* The library starts a thread, which must not take the launcher's signals. */
static int init_without_signals(pmix_client *pmix)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int result = pmix->library.init(&pmix->own, NULL, 0);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

static base_status pmix_open(const launch_place *place, const launch_wait *wait, void **state,
                             base_error *reterr)
{
    pmix_client *pmix = calloc(1, sizeof *pmix);
    (void)place;
    (void)wait;
    if (pmix == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the engine's store");
    }
    pmix->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    base_status status = pmix->done_fd >= 0
                             ? load(&pmix->library, reterr)
                             : base_fail_errno(reterr, errno, "cannot make an eventfd");
    if (status == BASE_OK) {
        status = check(pmix, init_without_signals(pmix), "PMIx_Init", reterr);
    }
    if (status != BASE_OK) {
        base_fd_close(&pmix->done_fd);
        free(pmix); /* the library stays: its destructors are not made for being unloaded */
        return status;
    }
    *state = pmix;
    return BASE_OK;
}

static base_status get_value(const pmix_client *pmix, uint32_t rank, const char *key, uint16_t type,
                             pmix_value **value, base_error *reterr)
{
    pmix_process process = pmix->own;
    process.rank = rank;
    *value = NULL;
    base_status status = check(pmix, pmix->library.get(&process, key, NULL, 0, value), key, reterr);
    if (status == BASE_OK && (*value == NULL || (*value)->type != type)) {
        free(*value);
        status = base_fail(reterr, BASE_ERR_PEER, "PMIx: %s is of another type", key);
    }
    return status;
}

static base_status pmix_size(void *state, int64_t *size, base_error *reterr)
{
    pmix_value *value = NULL;
    const base_status status =
        get_value(state, PMIX_RANK_ALL, "pmix.job.size", PMIX_TYPE_UINT32, &value, reterr);
    if (status == BASE_OK) {
        *size = value->data.uint32;
        free(value);
    }
    return status;
}

static base_status pmix_put(void *state, const char *key, const char *value, base_error *reterr)
{
    const pmix_client *pmix = state;
    char text[LAUNCH_STORE_VALUE_BYTES];
    pmix_value put = {.type = PMIX_TYPE_STRING, .data.string = text};
    (void)snprintf(text, sizeof text, "%s", value);
    const int result = pmix->library.put(PMIX_SCOPE_GLOBAL, key, &put);
    return check(pmix, result == PMIX_OK ? pmix->library.commit() : result, "PMIx_Put", reterr);
}

/* Called in the library's thread. */
static void end_fence(int result, void *data)
{
    pmix_client *pmix = data;
    pmix->fence_status = result;
    (void)eventfd_write(pmix->done_fd, 1);
}

static base_status pmix_fence(void *state, const launch_wait *wait, base_error *reterr)
{
    pmix_client *pmix = state;
    eventfd_t count = 0;
    const pmix_info collect = {.key = "pmix.collect",
                               .value = {.type = PMIX_TYPE_BOOL, .data.flag = true}};
    base_status status = check(pmix, pmix->library.fence(NULL, 0, &collect, 1, end_fence, pmix),
                               "PMIx_Fence", reterr);
    if (status != BASE_OK) {
        return status;
    }
    pmix->waits = true;
    status = launch_store_wait(pmix->done_fd, wait, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "PMIx");
    }
    pmix->waits = false;
    (void)eventfd_read(pmix->done_fd, &count);
    return check(pmix, pmix->fence_status, "PMIx_Fence", reterr);
}

static base_status pmix_get(void *state, int node, const char *key,
                            char value[LAUNCH_STORE_VALUE_BYTES], base_error *reterr)
{
    pmix_value *got = NULL;
    base_status status = get_value(state, (uint32_t)node, key, PMIX_TYPE_STRING, &got, reterr);
    if (status == BASE_OK) {
        if (got->data.string == NULL || strlen(got->data.string) >= LAUNCH_STORE_VALUE_BYTES) {
            status = base_fail(reterr, BASE_ERR_PEER, "PMIx: %s is too long", key);
        } else {
            (void)snprintf(value, LAUNCH_STORE_VALUE_BYTES, "%s", got->data.string);
        }
        free(got->data.string);
        free(got);
    }
    return status;
}

static void pmix_close(void *state)
{
    pmix_client *pmix = state;
    if (pmix->waits) {
        return; /* the library still has it, and the launcher ends */
    }
    (void)pmix->library.finalize(NULL, 0);
    (void)close(pmix->done_fd);
    free(pmix);
}

const launch_store_kind launch_store_pmix = {
    .open = pmix_open,
    .size = pmix_size,
    .put = pmix_put,
    .fence = pmix_fence,
    .get = pmix_get,
    .close = pmix_close,
};
