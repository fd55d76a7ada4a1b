/* Two hosts with two ranks each, in network namespaces, over IPv6: which addresses ranks choose and
 * tell each other, and every kind of operation with them. Needs root and ip: exits with 77 where it
 * has not got them. test_netns.c has the troubles of a network. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grid_case.h"
#include "netns.h"
#include "support.h"

enum { HOSTS = 2, RANKS = 4, BYTES = 1 << 20, ADDRESSES = 70 };

typedef struct job {
    coll_transport transport;
    const char *interface[HOSTS];
    const char *rendezvous[HOSTS];
    const char *refused; /* in the message of every rank */
} job;

static int host_of(int rank)
{
    return rank / (RANKS / HOSTS);
}

static bool run_kinds(grid_rank *g)
{
    for (int kind = COLL_ALL_REDUCE; kind <= COLL_SEND; kind++) {
        static const size_t counts[] = {0, 1, 3, 5003};
        for (size_t i = 0; kind != COLL_BARRIER && i < sizeof counts / sizeof counts[0]; i++) {
            const grid_case c = {.kind = (coll_kind)kind,
                                 .count = counts[i],
                                 .type = COLL_FLOAT32,
                                 .reduce = COLL_SUM,
                                 .root = (int)i,
                                 .algorithm = COLL_ALGORITHM_TWO_LEVEL,
                                 .placement = i % 2 == 0 ? GRID_ARENA_IN_PLACE : GRID_APART};
            if (!grid_case_run(g, &c)) {
                return false;
            }
        }
    }
    return true;
}

/* Ranks leave as soon as they have all of theirs. */
static void body(test_rank *rank)
{
    const job *j = rank->user;
    const int host = host_of(rank->rank);
    coll_context_options options = test_rank_options(rank);
    options.transport = j->transport;
    options.interface = j->interface[host];
    options.rendezvous_address = j->rendezvous[host];
    RANK_CHECK(rank, netns_enter(host));
    const coll_status joined = coll_context_create(&options, &rank->context, &rank->error);
    if (j->refused != NULL) {
        RANK_CHECK(rank, joined == COLL_ERR_INVALID);
        RANK_CHECK(rank, strstr(rank->error.message, j->refused) != NULL);
        return;
    }
    RANK_CHECK(rank, joined == COLL_OK);
    RANK_CHECK(rank, coll_context_transport(rank->context) == j->transport);
    grid_rank g = {.rank = rank, .comm = coll_context_world(rank->context), .bytes = BYTES};
    RANK_OK(rank, coll_arena_create(g.comm, BYTES, &g.arena, &rank->error));
    g.memory = malloc(BYTES);
    RANK_CHECK(rank, g.memory != NULL && run_kinds(&g));
    free(g.memory);
    coll_arena_destroy(g.arena);
    coll_context_destroy(rank->context);
}

static void run_job(job j)
{
    test_ranks_as_threads(&(test_ranks_options){.size = RANKS, .user = &j, .bare = true}, body);
}

static void addresses_are_found(void **state)
{
    (void)state;
    run_job((job){.interface = {"port", "fd00::/64"}});
    run_job((job){.interface = {"^lo,other", "fd00::2"}});
    run_job((job){.rendezvous = {"fd00::2", "fd00::2"}});
    run_job((job){.rendezvous = {"fd00::9", "fd00::9"}, .transport = COLL_TRANSPORT_TCP});
    run_job((job){.rendezvous = {"fd00::1", "fd00::1"}, .transport = COLL_TRANSPORT_ZMQ});
}

static void no_loopback_goes_out(void **state)
{
    (void)state;
    run_job((job){.rendezvous = {"::1", "::1"}, .refused = "cannot reach ::1: name"});
    run_job((job){.interface = {"lo", "lo"}, .refused = "cannot reach 127.0.0.1: name"});
    run_job((job){.interface = {"::1/128", "::ffff:127.0.0.1"}, .refused = "ranks on other hosts"});
}

/* The launcher's address holds on one link only, whose interface has another name on each host. */
static void links_have_names_of_their_own(void **state)
{
    const job j = {.rendezvous = {"fe80::2%port", "fe80::1%eth7"}};
    (void)state;
    assert_true(netns_run_on(1, "sh -c 'ip link set port down && ip link set port name eth7 && "
                                "ip link set eth7 up && ip addr add fe80::2/64 dev eth7 nodad'"));
    run_job(j);
    for (int t = COLL_TRANSPORT_ZMQ; t <= COLL_TRANSPORT_TCP; t++) {
        job over = j;
        over.transport = (coll_transport)t;
        run_job(over);
    }
}

/* Hosts of containers have more addresses than one would think. */
static void the_last_address_counts(void **state)
{
    (void)state;
    assert_true(netns_run_on(0,
                             "sh -c 'for i in $(seq %d); do "
                             "ip addr add 10.2.$i.1/24 dev lo || exit 1; done'",
                             ADDRESSES));
    run_job((job){.interface = {"fd00::/64", "fd00::/64"}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_found),
        cmocka_unit_test(no_loopback_goes_out),
        cmocka_unit_test(the_last_address_counts),
        cmocka_unit_test(links_have_names_of_their_own),
    };
    if (!netns_begin() || !netns_make(0, 1) || !netns_make(1, 2)) {
        (void)fprintf(stderr, "skipped: needs root, network namespaces and ip (iproute2)\n");
        return TEST_EXIT_SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
