/* The five formulas of coll/tensor_parallel.h, on a model of 32 layers with d_model 4096 in
 * two-byte elements, on NVLink and on Ethernet. */
#include "coll/tensor_parallel.h"

#include <stdbool.h>

#include "support.h"

static const coll_tp_link nvlink = {.latency_s = 10e-6, .bandwidth_bytes_per_s = 300e9};
static const coll_tp_link ethernet = {.latency_s = 100e-6, .bandwidth_bytes_per_s = 1.25e9};
static const coll_tp_step decode = {.layers = 32, .tokens = 1, .d_model = 4096, .element_bytes = 2};
static const double compute_s = 8e-3; /* a token's, without communication */

static bool is_close(double a, double b)
{
    return a >= b - 1e-12 * b && a <= b + 1e-12 * b;
}

/* The part of a step's communication that is latency: what is left where bytes cost nothing. */
static double latency_part(const coll_tp_step *step, int ranks, const coll_tp_link *link)
{
    coll_tp_link unlimited = *link;
    unlimited.bandwidth_bytes_per_s = 1e300;
    return coll_tp_comm_time_per_step(step, ranks, &unlimited);
}

static void test_payload_is_one_activation_row_per_token(void **state)
{
    (void)state;
    assert_true(coll_allreduce_payload_bytes(1, 4096, 2) == 8192);
    assert_true(coll_allreduce_payload_bytes(512, 4096, 2) == 512 * 8192.0);
    assert_true(coll_allreduce_payload_bytes(1, 4096, 4) == 2 * 8192.0);
    assert_true(coll_allreduce_payload_bytes(0, 4096, 4) == 0);
}

static void test_ring_traffic_formula(void **state)
{
    (void)state;
    const double payload = 8192;
    assert_true(coll_ring_allreduce_traffic_per_rank(payload, 1) == 0);
    assert_true(coll_ring_allreduce_traffic_per_rank(payload, 2) == payload);
    assert_true(coll_ring_allreduce_traffic_per_rank(payload, 4) == 1.5 * payload);
    double before = 0;
    for (int ranks = 2; ranks <= 4096; ranks++) {
        /* by counting: N − 1 rounds of reduce-scatter and as many of all-gather, a part each */
        double sent = 0;
        for (int round = 0; round < 2 * (ranks - 1); round++) {
            sent += payload / ranks;
        }
        const double traffic = coll_ring_allreduce_traffic_per_rank(payload, ranks);
        assert_true(traffic > sent * (1 - 1e-9) && traffic < sent * (1 + 1e-9));
        assert_true(traffic > before && traffic < 2 * payload);
        before = traffic;
    }
    const double many = coll_ring_allreduce_traffic_per_rank(payload, 1000000000);
    assert_true(many > 2 * payload * (1 - 1e-8) && many <= 2 * payload);
}

static void test_decode_step_comm_on_nvlink_is_noise(void **state)
{
    (void)state;
    const double comm_s = coll_tp_comm_time_per_step(&decode, 2, &nvlink);
    assert_true(is_close(comm_s, 64 * coll_allreduce_time_s(8192, 2, &nvlink)));
    assert_true(is_close(comm_s, 64 * (10e-6 + 8192 / 300e9)));
    assert_true(comm_s < 1e-3);
    assert_true(coll_comm_fraction(comm_s, compute_s) < 0.10);
}

static void test_decode_step_comm_on_ethernet_is_fatal(void **state)
{
    (void)state;
    const double comm_s = coll_tp_comm_time_per_step(&decode, 2, &ethernet);
    assert_true(is_close(latency_part(&decode, 2, &ethernet), 6.4e-3));
    assert_true(comm_s > 6.4e-3);
    assert_true(coll_comm_fraction(comm_s, compute_s) > 0.40);
    assert_true(is_close(coll_comm_fraction(comm_s, compute_s), comm_s / (comm_s + 8e-3)));
}

static void test_latency_dominates_small_payloads(void **state)
{
    (void)state;
    const coll_tp_link *links[] = {&nvlink, &ethernet};
    for (int i = 0; i < 2; i++) {
        const double small = coll_allreduce_time_s(8192, 2, links[i]);
        assert_true(links[i]->latency_s > 0.9 * small);
        /* half the bytes are hardly quicker: no wider link helps */
        assert_true(coll_allreduce_time_s(4096, 2, links[i]) > 0.9 * small);
    }
}

static void test_prefill_payloads_shift_the_balance_to_bandwidth(void **state)
{
    (void)state;
    coll_tp_step prefill = decode;
    prefill.tokens = 2048;
    const coll_tp_link *links[] = {&nvlink, &ethernet};
    for (int i = 0; i < 2; i++) {
        const double decode_s = coll_tp_comm_time_per_step(&decode, 2, links[i]);
        const double prefill_s = coll_tp_comm_time_per_step(&prefill, 2, links[i]);
        assert_true(latency_part(&decode, 2, links[i]) > 0.9 * decode_s);
        assert_true(latency_part(&prefill, 2, links[i]) < 0.2 * prefill_s);
    }
}

static void test_more_ranks_more_overhead(void **state)
{
    (void)state;
    const coll_tp_link *links[] = {&nvlink, &ethernet};
    for (int i = 0; i < 2; i++) {
        double comm_before = 0;
        double fraction_before = 0;
        assert_true(coll_tp_comm_time_per_step(&decode, 1, links[i]) == 0);
        assert_true(coll_comm_fraction(0, compute_s) == 0 && coll_comm_fraction(0, 0) == 0);
        for (int ranks = 2; ranks <= 64; ranks *= 2) {
            const double comm_s = coll_tp_comm_time_per_step(&decode, ranks, links[i]);
            const double fraction = coll_comm_fraction(comm_s, compute_s / ranks);
            assert_true(comm_s > comm_before && fraction > fraction_before && fraction < 1);
            comm_before = comm_s;
            fraction_before = fraction;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_payload_is_one_activation_row_per_token),
        cmocka_unit_test(test_ring_traffic_formula),
        cmocka_unit_test(test_decode_step_comm_on_nvlink_is_noise),
        cmocka_unit_test(test_decode_step_comm_on_ethernet_is_fatal),
        cmocka_unit_test(test_latency_dominates_small_payloads),
        cmocka_unit_test(test_prefill_payloads_shift_the_balance_to_bandwidth),
        cmocka_unit_test(test_more_ranks_more_overhead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
