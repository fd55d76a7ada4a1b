/* A bootstrap over several hosts, which are network namespaces, and by a name that is another address on
 * each: on rank 0's own host it is 127.0.1.1, as in Debian's /etc/hosts. Needs root and ip: exits with 77
 * where it has not got them. */
#include <netdb.h>
#include <stdio.h>

#include "base/clock.h"
#include "meeting.h"
#include "netns.h"
#include "ringfence/coll_error.h"
#include "support.h"

enum { RANKS = 3, HOSTS = 2 };

#define NAME "rank-0.test"

static const char *meaning; /* of the name, in this process */
static int failures;        /* of the name server, before it knows it */

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    if (strcmp(node, NAME) != 0) {
        return __real_getaddrinfo(node, service, hints, found);
    }
    if ((hints->ai_flags & AI_NUMERICHOST) != 0) {
        return EAI_NONAME;
    }
    return failures-- > 0 ? EAI_AGAIN : __real_getaddrinfo(meaning, service, hints, found);
}

/* Ranks 0 and 2 are on one host, rank 1 on another. */
static int host_of(int rank)
{
    return rank % HOSTS;
}

static void enter(int rank)
{
    meaning = host_of(rank) == 0 ? "127.0.1.1" : "fd00::1";
    failures = 1;
    if (!netns_enter(host_of(rank))) {
        (void)fprintf(stderr, "rank %d cannot enter its host\n", rank);
    }
}

static void meet(const char *address)
{
    meeting m;
    coll_error error;
    meeting_begin(&m, "::1"); /* for the port alone: hosts have their own */
    for (int rank = 0; rank < RANKS; rank++) {
        const meeting_process process = {.options = {.rank = rank,
                                                     .world_size = RANKS,
                                                     .address = address,
                                                     .timeout_ns = 10 * BASE_NS_PER_S},
                                         .deed = MEETING_CONTEXT,
                                         .before = enter};
        (void)meeting_start(&m, &process);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        assert_ok(meeting_end(&m, rank, &error), &error);
    }
    meeting_close(&m);
}

/* Nobody has said which interface the data is to go over: that by which rank 0 was reached. */
static void ranks_of_two_hosts_meet(void **state)
{
    (void)state;
    meet("fd00::1");
    meet(NAME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_of_two_hosts_meet)};
    if (!netns_begin() || !netns_make(0, 1) || !netns_make(1, 2)) {
        (void)fprintf(stderr, "no network namespaces here\n");
        return TEST_EXIT_SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
