/* Whether a Gemma 3's sizes and settings are what passes can take. Called through gemma3.c's table. */
#include "model/config_read.h"
#include "model/gemma3/parts.h"

/* Frequencies must be in 0 … 1, so that an angle is what backend/turn.h takes. */
static base_status check_numbers(const rank_model_config *config, base_error *reterr)
{
    static const struct {
        const char *name;
        int setting;
        double least;
        double most;
    } bounds[] = {
        {"rms_norm_eps", LLAMA_EPSILON, 1e-30, 1.0},
        {"rope_theta", LLAMA_THETA, 1.0, 1e30},
        {"rope_local_base_freq", GEMMA3_LOCAL_THETA, 1.0, 1e30},
        {"rope's factor", LLAMA_FACTOR, 1.0, 1e30},
        {"query_pre_attn_scalar", GEMMA3_QUERY_SCALAR, 1e-6, 1e6},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const double number = config->settings[bounds[i].setting];
        if (!(number >= bounds[i].least && number <= bounds[i].most)) {
            return base_fail(reterr, BASE_ERR_INVALID, "model: %s is %g, it must be %g … %g",
                             bounds[i].name, number, bounds[i].least, bounds[i].most);
        }
    }
    return BASE_OK;
}

base_status gemma3_check(const rank_model_config *config, base_error *reterr)
{
    base_status status = rank_block_check(config, reterr);
    if (status == BASE_OK) {
        status = rank_config_range("the sliding window", (int)config->settings[GEMMA3_WINDOW],
                                   RANK_BLOCK_CONTEXT_MAX, reterr);
    }
    return status == BASE_OK ? check_numbers(config, reterr) : status;
}
