/* Resolves the head's name, on a thread of its own: a name server that does not answer may hold up the
 * system's resolver for half a minute. Called by the head, and by engine/bootstrap.c for agents, whose
 * loops have a user to listen to. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "engine/address.h"

/* The one question that may be open. The thread that asks it outlives a caller's patience. */
static struct {
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t answered;
    bool open;
    bool has_answer;
    char host[BASE_HOSTNAME_BYTES];
    int failed; /* getaddrinfo's */
    launch_addresses addresses;
} question = {.lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};

static void keep(const struct addrinfo *found, launch_addresses *addresses)
{
    addresses->count = 0;
    for (const struct addrinfo *one = found; one != NULL && addresses->count < LAUNCH_ADDRESSES_MAX;
         one = one->ai_next) {
        char numeric[LAUNCH_NUMERIC_BYTES];
        if (getnameinfo(one->ai_addr, one->ai_addrlen, numeric, sizeof numeric, NULL, 0,
                        NI_NUMERICHOST) == 0 &&
            !launch_addresses_have(addresses, numeric)) {
            memcpy(addresses->numeric[addresses->count++], numeric, sizeof numeric);
        }
    }
}

static void *ask(void *unused)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[BASE_HOSTNAME_BYTES];
    (void)pthread_mutex_lock(&question.lock);
    memcpy(host, question.host, sizeof host);
    (void)pthread_mutex_unlock(&question.lock);
    const int failed = getaddrinfo(host, NULL, &hints, &found);
    (void)pthread_mutex_lock(&question.lock);
    question.failed = failed;
    if (failed == 0) {
        keep(found, &question.addresses);
        freeaddrinfo(found);
    }
    question.has_answer = true;
    (void)pthread_cond_broadcast(&question.answered);
    (void)pthread_mutex_unlock(&question.lock);
    return unused;
}

/* The lock is held, and no question is open. */
static base_status begin(const char *host, base_error *reterr)
{
    pthread_t thread;
    (void)snprintf(question.host, sizeof question.host, "%s", host);
    question.has_answer = false;
    const base_status status = base_thread_start(&thread, ask, NULL, "resolving a name", reterr);
    if (status == BASE_OK) {
        (void)pthread_detach(thread);
        question.open = true;
    }
    return status;
}

/* The lock is held, and the answer is there. */
static base_status take_answer(const char *host, launch_addresses *addresses, base_error *reterr)
{
    question.open = false;
    if (question.failed != 0) {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "cannot resolve %s: %s", host,
                         gai_strerror(question.failed));
    }
    *addresses = question.addresses;
    return addresses->count > 0 ? BASE_OK
                                : base_fail(reterr, BASE_ERR_NOTFOUND, "%s has no address", host);
}

base_status launch_address_resolve(const launch_address *address, int64_t deadline_ns,
                                   launch_addresses *addresses, base_error *reterr)
{
    base_status status = BASE_OK;
    const struct timespec until = {.tv_sec = deadline_ns / BASE_NS_PER_S,
                                   .tv_nsec = deadline_ns % BASE_NS_PER_S};
    (void)pthread_mutex_lock(&question.lock);
    if (question.open && strcmp(question.host, address->host) != 0) {
        status = base_fail(reterr, BASE_ERR_BUSY, "still resolving %s", question.host);
    } else if (!question.open) {
        status = begin(address->host, reterr);
    }
    while (status == BASE_OK && !question.has_answer) {
        if (pthread_cond_clockwait(&question.answered, &question.lock, CLOCK_MONOTONIC, &until) ==
            ETIMEDOUT) {
            status = base_fail(reterr, BASE_ERR_TIMEOUT,
                               "cannot resolve %s: no name server has answered yet", question.host);
        }
    }
    if (status == BASE_OK) {
        status = take_answer(address->host, addresses, reterr);
    }
    (void)pthread_mutex_unlock(&question.lock);
    return status;
}
