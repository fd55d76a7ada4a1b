/* A small model with experts, for the tests of launcher/plan. */
#ifndef TEST_PLAN_MIXTURE_H
#define TEST_PLAN_MIXTURE_H

#include "plan_case.h"

enum {
    LAYERS = 3,
    WIDTH = 64,
    QUERIES = 4 * 24,
    KEYS = 2 * 24,
    HIDDEN = 160,
    EXPERTS = 8,
    CHOSEN = 2,
    ATTENTION = WIDTH * (2 * QUERIES + 2 * KEYS), /* parameters of a layer */
    EXPERT = 3 * WIDTH * HIDDEN,
    ROUTER = WIDTH * EXPERTS,
    REST = ATTENTION + ROUTER + 2 * WIDTH, /* of a layer, without experts */
    WORDS = 512 * WIDTH,
    TOKENS = 2 * 32, /* of a micro-batch */
};

/* 4 heads of 24 in a stream of 64, so queries are wider than it; 2 heads of keys and values. */
static inline launch_model mixture(void)
{
    return (launch_model){.layers = LAYERS,
                          .width = WIDTH,
                          .heads = 4,
                          .vocab_size = 512,
                          .context = 32,
                          .context_max = 128,
                          .kv_heads = 2,
                          .head_width = 24,
                          .hidden = HIDDEN,
                          .experts = EXPERTS,
                          .chosen = CHOSEN,
                          .gated = true,
                          .rms = true,
                          .rotated = true,
                          .tied = true};
}

/* One micro-batch for each of four replicas. */
static inline launch_ask ask_mixture(void)
{
    const launch_model model = mixture();
    launch_ask ask = ask_of(&model);
    ask.device.host_ranks = 8;
    ask.global_batch = 8;
    return ask;
}

/* Without its timeline. */
static inline launch_estimate figures_of(const launch_ask *ask, int64_t data, int64_t tensor,
                                         int64_t expert_ranks)
{
    const launch_layout layout = {.data = data,
                                  .tensor = tensor,
                                  .pipeline = 1,
                                  .context_ranks = 1,
                                  .expert_ranks = expert_ranks};
    launch_estimate made = estimate_layout(ask, &layout);
    launch_estimate_fini(&made);
    return made;
}

#endif
