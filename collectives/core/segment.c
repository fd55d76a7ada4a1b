/* Sealed memfd segments, mapped once per process. Called by shm.c and arena.c for shared memory,
 * and by net.c for private arenas. */
#include "core/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

enum { PAGE_BYTES = 4096 };

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

typedef struct mapping {
    struct mapping *next;
    dev_t device;
    ino_t inode;
    void *data;
    size_t size_bytes;
    unsigned users;
} mapping;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static mapping *registry;

size_t coll_segment_round(size_t size_bytes)
{
    if (size_bytes > SIZE_MAX / 2) {
        return 0;
    }
    const size_t pages = (size_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    return (pages == 0 ? 1 : pages) * PAGE_BYTES;
}

static mapping *find_locked(const struct stat *info)
{
    for (mapping *m = registry; m != NULL; m = m->next) {
        if (m->device == info->st_dev && m->inode == info->st_ino) {
            return m;
        }
    }
    return NULL;
}

static coll_status add_locked(int fd, const struct stat *info, size_t size_bytes, mapping **added,
                              coll_error *reterr)
{
    mapping *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a mapping");
    }
    m->data = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m->data == MAP_FAILED) {
        const int reason = errno;
        free(m);
        return coll_fail_errno(reterr, reason, "cannot map %zu bytes of shared memory", size_bytes);
    }
    m->device = info->st_dev;
    m->inode = info->st_ino;
    m->size_bytes = size_bytes;
    m->next = registry;
    registry = m;
    *added = m;
    return COLL_OK;
}

coll_status coll_segment_map(int fd, size_t size_bytes, void **data, coll_error *reterr)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return coll_fail_errno(reterr, errno, "cannot look at a shared memory descriptor");
    }
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS) {
        return coll_fail(reterr, COLL_ERR_PEER, "shared memory from a peer is not sealed");
    }
    if (info.st_size < 0 || (size_t)info.st_size != size_bytes) {
        return coll_fail(reterr, COLL_ERR_PEER, "shared memory from a peer has %lld bytes, not %zu",
                         (long long)info.st_size, size_bytes);
    }
    (void)pthread_mutex_lock(&registry_lock);
    mapping *m = find_locked(&info);
    coll_status status = COLL_OK;
    if (m == NULL) {
        status = add_locked(fd, &info, size_bytes, &m, reterr);
    }
    if (status == COLL_OK) {
        m->users++;
        *data = m->data;
    }
    (void)pthread_mutex_unlock(&registry_lock);
    return status;
}

/* Beyond the limit, ftruncate would end the process by SIGXFSZ. */
static coll_status check_limit(size_t size_bytes, coll_error *reterr)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || size_bytes <= limit.rlim_cur
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_IO,
                           "cannot make %zu bytes of shared memory: files may have %" PRIu64
                           " bytes (ulimit -f)",
                           size_bytes, (uint64_t)limit.rlim_cur);
}

coll_status coll_segment_create(size_t size_bytes, int *fd, void **data, coll_error *reterr)
{
    coll_status status = check_limit(size_bytes, reterr);
    *fd = -1;
    if (status != COLL_OK) {
        return status;
    }
    *fd = memfd_create("ringfence", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0) {
        return coll_fail_errno(reterr, errno, "cannot make shared memory");
    }
    if (ftruncate(*fd, (off_t)size_bytes) != 0 || fcntl(*fd, F_ADD_SEALS, SEALS) != 0) {
        status =
            coll_fail_errno(reterr, errno, "cannot make %zu bytes of shared memory", size_bytes);
    } else {
        status = coll_segment_map(*fd, size_bytes, data, reterr);
    }
    if (status != COLL_OK) {
        (void)close(*fd);
        *fd = -1;
    }
    return status;
}

void coll_segment_unmap(void *data)
{
    if (data == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&registry_lock);
    mapping **link = &registry;
    while (*link != NULL && (*link)->data != data) {
        link = &(*link)->next;
    }
    mapping *m = *link;
    BASE_ASSERT(m != NULL);
    if (--m->users == 0) {
        *link = m->next;
        (void)munmap(m->data, m->size_bytes);
        free(m);
    }
    (void)pthread_mutex_unlock(&registry_lock);
}

void coll_segment_discard(void *data, size_t size_bytes)
{
    const uintptr_t first = (uintptr_t)data;
    const size_t skipped = (PAGE_BYTES - first % PAGE_BYTES) % PAGE_BYTES;
    const size_t bytes =
        size_bytes > skipped ? (size_bytes - skipped) / PAGE_BYTES * PAGE_BYTES : 0;
    void *at = (uint8_t *)data + skipped;
    /* of shared memory that frees the pages for all processes; private memory does not have it */
    if (bytes > 0 && madvise(at, bytes, MADV_REMOVE) != 0) {
        (void)madvise(at, bytes, MADV_DONTNEED);
    }
}

coll_status coll_segment_create_private(size_t size_bytes, void **data, coll_error *reterr)
{
    void *made = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        return coll_fail_errno(reterr, errno, "cannot map %zu bytes", size_bytes);
    }
    *data = made;
    return COLL_OK;
}

void coll_segment_free_private(void *data, size_t size_bytes)
{
    if (data != NULL) {
        (void)munmap(data, size_bytes);
    }
}
