/* Resolves a host's name on a thread of its own: a name server that does not answer may hold up the
 * system's resolver for half a minute. Called by launchers, which have a user to listen to, and by
 * libcoll's bootstrap, which has a deadline. */
#include "base/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/thread.h"

/* The thread that asks may outlive its asker's patience: the last of the two frees this. */
struct base_question {
    atomic_int owners;
    atomic_bool answered; /* what is below is the thread's before, and the asker's after */
    int answered_fd;
    char host[BASE_HOSTNAME_BYTES];
    int failed; /* getaddrinfo's */
    base_addresses addresses;
};

bool base_addresses_have(const base_addresses *addresses, const char *numeric)
{
    for (int i = 0; i < addresses->count; i++) {
        if (strcmp(addresses->numeric[i], numeric) == 0) {
            return true;
        }
    }
    return false;
}

static void keep(const struct addrinfo *found, base_addresses *addresses)
{
    for (const struct addrinfo *one = found; one != NULL && addresses->count < BASE_ADDRESSES_MAX;
         one = one->ai_next) {
        char numeric[BASE_NUMERIC_BYTES];
        if (getnameinfo(one->ai_addr, one->ai_addrlen, numeric, sizeof numeric, NULL, 0,
                        NI_NUMERICHOST) == 0 &&
            !base_addresses_have(addresses, numeric)) {
            memcpy(addresses->numeric[addresses->count++], numeric, sizeof numeric);
        }
    }
}

void base_question_drop(base_question *question)
{
    if (question != NULL && atomic_fetch_sub(&question->owners, 1) == 1) {
        (void)close(question->answered_fd);
        free(question);
    }
}

static void *ask(void *argument)
{
    base_question *question = argument;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    question->failed = getaddrinfo(question->host, NULL, &hints, &found);
    if (question->failed == 0) {
        keep(found, &question->addresses);
        freeaddrinfo(found);
    }
    atomic_store(&question->answered, true);
    (void)eventfd_write(question->answered_fd, 1);
    base_question_drop(question);
    return NULL;
}

base_status base_question_ask(const char *host, base_question **question, base_error *reterr)
{
    pthread_t thread;
    base_question *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to resolve %s", host);
    }
    made->owners = 2;
    made->answered_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)snprintf(made->host, sizeof made->host, "%s", host);
    const base_status status =
        made->answered_fd >= 0
            ? base_thread_start(&thread, ask, made, "resolving a name", reterr)
            : base_fail_errno(reterr, errno, "cannot make an eventfd to resolve %s", host);
    if (status != BASE_OK) {
        made->owners = 1;
        base_question_drop(made);
        return status;
    }
    (void)pthread_detach(thread);
    *question = made;
    return BASE_OK;
}

int base_question_fd(const base_question *question)
{
    return question->answered_fd;
}

base_status base_question_answer(const base_question *question, base_addresses *addresses,
                                 base_error *reterr)
{
    BASE_ASSERT(atomic_load(&question->answered));
    if (question->failed != 0) {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "cannot resolve %s: %s", question->host,
                         gai_strerror(question->failed));
    }
    *addresses = question->addresses;
    return addresses->count > 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_NOTFOUND, "%s has no address", question->host);
}
