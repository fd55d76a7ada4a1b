/* Requests that are not granted. Used by tests of what libcoll does without. */
#include "famine.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <zmq.h>

#include "support.h"

enum { STRIDE = TEST_HAS_TSAN ? 4 : 1, REQUESTS_MAX = 400, PLENTY = 1 << 30 };

static _Thread_local int left[TEST_WANTS] = {PLENTY, PLENTY,
                                             PLENTY}; /* requests that are granted, */
static _Thread_local bool refused;                    /* whether one was not, */
static _Thread_local bool lasts;                      /* and none after it is */

static bool grant(test_want what, int error)
{
    if (left[what]-- > 0) {
        return true;
    }
    left[what] = lasts ? 0 : PLENTY; /* one only: what comes after is to work again */
    refused = true;
    errno = error;
    return false;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __real_zmq_msg_init_size(zmq_msg_t *message, size_t size);
int __wrap_zmq_msg_init_size(zmq_msg_t *message, size_t size);
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __real_eventfd(unsigned int value, int flags);
int __wrap_eventfd(unsigned int value, int flags);
int __real_memfd_create(const char *name, unsigned int flags);
int __wrap_memfd_create(const char *name, unsigned int flags);
void *__real_zmq_socket(void *context, int type);
void *__wrap_zmq_socket(void *context, int type);
void *__real_mmap(void *at, size_t size, int access, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int access, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t size)
{
    return grant(TEST_WANT_MEMORY, ENOMEM) ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return grant(TEST_WANT_MEMORY, ENOMEM) ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *memory, size_t size)
{
    return grant(TEST_WANT_MEMORY, ENOMEM) ? __real_realloc(memory, size) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return grant(TEST_WANT_MEMORY, ENOMEM) ? __real_aligned_alloc(alignment, size) : NULL;
}

int __wrap_zmq_msg_init_size(zmq_msg_t *message, size_t size)
{
    return grant(TEST_WANT_MEMORY, ENOMEM) ? __real_zmq_msg_init_size(message, size) : -1;
}

int __wrap_socket(int domain, int type, int protocol)
{
    return grant(TEST_WANT_DESCRIPTOR, EMFILE) ? __real_socket(domain, type, protocol) : -1;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    return grant(TEST_WANT_DESCRIPTOR, EMFILE) ? __real_accept4(fd, address, length, flags) : -1;
}

int __wrap_eventfd(unsigned int value, int flags)
{
    return grant(TEST_WANT_DESCRIPTOR, EMFILE) ? __real_eventfd(value, flags) : -1;
}

int __wrap_memfd_create(const char *name, unsigned int flags)
{
    return grant(TEST_WANT_DESCRIPTOR, EMFILE) ? __real_memfd_create(name, flags) : -1;
}

void *__wrap_zmq_socket(void *context, int type)
{
    return grant(TEST_WANT_DESCRIPTOR, EMFILE) ? __real_zmq_socket(context, type) : NULL;
}

void *__wrap_mmap(void *at, size_t size, int access, int flags, int fd, off_t offset)
{
    return grant(TEST_WANT_MAPPING, ENOMEM) ? __real_mmap(at, size, access, flags, fd, offset)
                                            : MAP_FAILED;
}

void test_famine_begin(const test_famine *famine)
{
    refused = false;
    lasts = famine->lasts;
    left[famine->what] = famine->granted;
}

void test_famine_end(test_famine *famine)
{
    left[famine->what] = PLENTY;
    lasts = false;
    famine->refused = refused;
}

void test_famine_sweep(const test_ranks_options *options, test_want what, int rank,
                       test_rank_body body)
{
    test_famine f = {.what = what, .rank = rank, .refused = true};
    test_ranks_options own = *options;
    const int before = test_open_descriptors();
    own.user = &f;
    for (; f.refused; f.granted += STRIDE) {
        f.refused = false;
        test_ranks_as_threads(&own, body);
        if (test_open_descriptors() != before || f.granted > REQUESTS_MAX) {
            fail_msg("%s, request %d of %d: descriptors stay open, or there is no end",
                     coll_transport_name(own.transport), f.granted, (int)what);
        }
    }
}
