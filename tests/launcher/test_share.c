/* cli/share.h: how a training is shared out among fewer hosts. The order in which its slots are added up must stay:
 * it is written down here as a text with brackets. */
#include "cli/share.h"

#include <stdio.h>
#include <string.h>

#include "support.h"

enum { TEXT_BYTES = 4096, NODES_MAX = 6, EACH_MAX = 4, MICRO_BATCHES_MAX = 6 };

typedef struct expression {
    char bytes[TEXT_BYTES];
    size_t used;
} expression;

static void put(expression *to, const char *text)
{
    const size_t length = strlen(text);
    assert_true(to->used + length < TEXT_BYTES);
    memcpy(to->bytes + to->used, text, length + 1);
    to->used += length;
}

/* A number of slots from `first` on, `step` apart; below each of them, `inner` ones. */
typedef struct leaves {
    int inner;
    int inner_step;
    int step;
} leaves;

/* The canonical tree, as docs/COLLECTIVES.md has it: tree(n) = tree(p) + tree(n - p), with p the largest power of two
 * below n. */
static void put_tree(expression *to, int first, int count, const leaves *of)
{
    if (count > 1) {
        int left = 1;
        while (left * 2 < count) {
            left *= 2;
        }
        put(to, "(");
        put_tree(to, first, left, of);
        put(to, "+");
        put_tree(to, first + left * of->step, count - left, of);
        put(to, ")");
    } else if (of->inner > 1) {
        const leaves below = {.inner = 1, .step = of->inner_step};
        put_tree(to, first, of->inner, &below);
    } else {
        char slot[16];
        (void)snprintf(slot, sizeof slot, "%d", first);
        put(to, slot);
    }
}

/* The order in which a job adds up its slots. */
static void put_job(expression *to, int ranks, int micro_batches, bool replicas_first)
{
    *to = (expression){.used = 0};
    const leaves each_rank = {.inner = micro_batches, .inner_step = 1, .step = micro_batches};
    const leaves each_batch = {.inner = ranks, .inner_step = 1, .step = ranks};
    if (replicas_first) {
        put_tree(to, 0, micro_batches, &each_batch);
    } else {
        put_tree(to, 0, ranks, &each_rank);
    }
}

/* Whether another number of ranks adds them up in the same order. */
static bool keeps_bits(int slots, int ranks, bool replicas_first)
{
    static expression whole;
    static expression shared;
    put_job(&whole, slots, 1, false);
    put_job(&shared, ranks, slots / ranks, replicas_first);
    return strcmp(whole.bytes, shared.bytes) == 0;
}

static void check_job(const proto_job *job, int nodes, bool replicas_first)
{
    const int slots = (int)(job->job.world_size * job->train.micro_batches);
    const int each = (int)job->job.world_size / nodes;
    for (int present = 1; present <= nodes; present++) {
        launch_share share;
        int best = 0;
        for (int hosts = 1; hosts <= present; hosts++) {
            for (int ranks = hosts; ranks <= hosts * each; ranks += hosts) {
                const bool fits = slots % ranks == 0 && keeps_bits(slots, ranks, replicas_first);
                best = fits && ranks > best ? ranks : best;
            }
        }
        assert_true(launch_share_find(job, nodes, present, &share));
        assert_int_equal(share.ranks, best);
        assert_int_equal(share.ranks * share.micro_batches, slots);
        assert_true(share.hosts <= present && share.ranks % share.hosts == 0);
        assert_true(share.ranks / share.hosts <= each);
    }
}

/* The most of a job's expert ranks with which so many ranks add up its slots in their order; 0: there is none. */
static int most_expert_ranks(int wanted, int slots, int ranks)
{
    int most = 0;
    for (int experts = 1; slots % ranks == 0 && experts <= wanted; experts *= 2) {
        const bool runs = experts == 1 ||
                          (ranks % experts == 0 && (slots == ranks || (ranks & (ranks - 1)) == 0));
        most = runs && keeps_bits(slots, ranks, experts > 1) ? experts : most;
    }
    return most;
}

static void check_experts(const proto_job *job, int nodes)
{
    const int slots = (int)(job->job.world_size * job->train.micro_batches);
    const int each = (int)job->job.world_size / nodes;
    const int wanted = (int)job->parallel.expert_ranks;
    for (int present = 1; present <= nodes; present++) {
        launch_share share;
        int best = 0;
        for (int hosts = 1; hosts <= present; hosts++) {
            for (int ranks = hosts; ranks <= hosts * each; ranks += hosts) {
                best = most_expert_ranks(wanted, slots, ranks) > 0 && ranks > best ? ranks : best;
            }
        }
        assert_true(launch_share_find(job, nodes, present, &share));
        assert_int_equal(share.ranks, best);
        assert_int_equal(share.expert_ranks, most_expert_ranks(wanted, slots, best));
        proto_job shared = *job;
        base_error error;
        shared.job.world_size = share.ranks;
        shared.train.micro_batches = share.micro_batches;
        shared.parallel.expert_ranks = share.expert_ranks;
        assert_ok(proto_job_check(&shared, &error), &error);
    }
}

/* Groups of ranks become smaller where they must, so that ranks have more of the experts each. */
static void experts_are_shared_out_anew(void **state)
{
    (void)state;
    static proto_job job;
    int checked = 0;
    proto_job_defaults(&job);
    job.model.experts = 8;
    for (int nodes = 1; nodes <= NODES_MAX; nodes++) {
        for (int each = 1; each <= EACH_MAX; each++) {
            for (int batches = 1; batches <= MICRO_BATCHES_MAX; batches++) {
                for (int experts = 2; experts <= 8; experts *= 2) {
                    base_error error;
                    job.job.world_size = (int64_t)nodes * each;
                    job.train.micro_batches = batches;
                    job.parallel.expert_ranks = experts;
                    if (proto_job_check(&job, &error) != BASE_OK) {
                        continue;
                    }
                    assert_ok(launch_share_check(&job, nodes, 1, &error), &error);
                    check_experts(&job, nodes);
                    checked++;
                }
            }
        }
    }
    assert_true(checked > 30);
}

/* Of all jobs that keep their bits: they have the most ranks that do, on any number of hosts. */
static void the_order_of_slots_stays(void **state)
{
    (void)state;
    static proto_job job;
    int checked = 0;
    proto_job_defaults(&job);
    for (int nodes = 1; nodes <= NODES_MAX; nodes++) {
        for (int each = 1; each <= EACH_MAX; each++) {
            for (int batches = 1; batches <= MICRO_BATCHES_MAX; batches++) {
                for (int zero = 0; zero <= 3; zero++) {
                    const bool replicas_first = zero >= 2;
                    base_error error;
                    job.job.world_size = (int64_t)nodes * each;
                    job.train.micro_batches = batches;
                    job.parallel.zero = zero;
                    if (!keeps_bits(nodes * each * batches, nodes * each, replicas_first)) {
                        assert_status(launch_share_check(&job, nodes, 1, &error), BASE_ERR_INVALID);
                        continue;
                    }
                    assert_ok(launch_share_check(&job, nodes, 1, &error), &error);
                    check_job(&job, nodes, replicas_first);
                    checked++;
                }
            }
        }
    }
    assert_true(checked > 100);
}

static void equal_ranks_are_on_as_many_hosts_as_may_be(void **state)
{
    (void)state;
    static proto_job job;
    launch_share share;
    proto_job_defaults(&job);
    job.job.world_size = 8; /* 4 hosts with 2 each */
    assert_true(launch_share_find(&job, 4, 3, &share));
    assert_int_equal(share.hosts,
                     2); /* 6 ranks do not share out 8 slots, and 3 hosts not 4 ranks */
    assert_int_equal(share.ranks, 4);
    assert_int_equal(share.micro_batches, 2);
    job.job.world_size = 4;
    job.train.micro_batches = 2;
    assert_true(launch_share_find(&job, 2, 2, &share));
    assert_int_equal(share.hosts, 2);
    assert_int_equal(share.ranks, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_slots_stays),
        cmocka_unit_test(experts_are_shared_out_anew),
        cmocka_unit_test(equal_ranks_are_on_as_many_hosts_as_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
