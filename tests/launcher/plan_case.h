/* What the tests of launcher/plan's estimates ask, and how they read the answers. */
#ifndef TEST_PLAN_CASE_H
#define TEST_PLAN_CASE_H

#include <math.h>
#include <string.h>

#include "plan/estimate.h"
#include "support.h"

static inline const launch_model *model_of(const char *name)
{
    for (int i = 0; launch_model_name(i) != NULL; i++) {
        if (strcmp(launch_model_name(i), name) == 0) {
            return launch_model_get(i);
        }
    }
    fail_msg("no model %s", name);
    return NULL;
}

static inline bool is_close(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* A device with round figures. */
static inline launch_ask ask_of(const launch_model *model)
{
    return (launch_ask){
        .model = *model,
        .device = {.flops = {1e12, 2e12, 4e12},
                   .memory_bytes = 1e12,
                   .memory_bytes_per_s = 1e12,
                   .inside = {.latency_s = 1e-6, .bandwidth_bytes_per_s = 1e9},
                   .between = {.latency_s = 1e-3, .bandwidth_bytes_per_s = 1e6},
                   .host_ranks = 4},
        .efficiency = 0.5,
        .memory_efficiency = 1,
        .batch = 2,
        .global_batch = 32,
        .schedule = PROTO_PIPELINE_1F1B,
        .chunks = 1,
    };
}

/* The caller ends it. */
static inline launch_estimate estimate_layout(const launch_ask *ask, const launch_layout *layout)
{
    launch_estimate made;
    base_error error;
    assert_ok(launch_estimate_make(ask, layout, &made, &error), &error);
    return made;
}

/* No ranks share tokens. */
static inline launch_estimate estimate_of(const launch_ask *ask, int64_t data, int64_t tensor,
                                          int64_t pipeline)
{
    return estimate_layout(
        ask,
        &(launch_layout){.data = data, .tensor = tensor, .pipeline = pipeline, .context_ranks = 1});
}

/* NULL: there is none. */
static inline const launch_bill_row *row_of(const launch_estimate *made, const char *what)
{
    for (int i = 0; i < made->row_count; i++) {
        if (strcmp(made->rows[i].what, what) == 0) {
            return &made->rows[i];
        }
    }
    return NULL;
}

#endif
