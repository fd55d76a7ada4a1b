/* Applies penalties and biases to a row of logits. Called by engine.c, on every rank for its own part
 * of the row, or for all of it. */
#include "generate/adjust.h"

#include <float.h>

static bool is_within(double value, double least, double most)
{
    return value >= least && value <= most; /* false of NaN */
}

static double repetition_of(const rank_penalties *penalties)
{
    return penalties->repetition != 0 ? penalties->repetition : 1;
}

static base_status check_biases(const rank_adjustment *how, int32_t vocab_size, base_error *reterr)
{
    if (how->bias_count < 0 || how->bias_count > RANK_LOGIT_BIASES_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "a logit_bias has 0 to %d tokens, not %d",
                         RANK_LOGIT_BIASES_MAX, how->bias_count);
    }
    for (int32_t i = 0; i < how->bias_count; i++) {
        if (how->biases[i].token < 0 || how->biases[i].token >= vocab_size) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "logit_bias: there is no token %d, the vocabulary has %d",
                             how->biases[i].token, vocab_size);
        }
        if (!is_within((double)how->biases[i].bias, -RANK_LOGIT_BIAS_MAX, RANK_LOGIT_BIAS_MAX)) {
            return base_fail(reterr, BASE_ERR_INVALID, "a logit_bias is from %g to %g, not %g",
                             -RANK_LOGIT_BIAS_MAX, RANK_LOGIT_BIAS_MAX,
                             (double)how->biases[i].bias);
        }
    }
    return BASE_OK;
}

base_status rank_adjust_check(const rank_adjustment *how, int32_t vocab_size, base_error *reterr)
{
    const rank_penalties *of = how->penalties;
    if (!is_within(of->presence, -RANK_PENALTY_MAX, RANK_PENALTY_MAX) ||
        !is_within(of->frequency, -RANK_PENALTY_MAX, RANK_PENALTY_MAX)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a presence or frequency penalty is from %g to %g, not %g and %g",
                         -RANK_PENALTY_MAX, RANK_PENALTY_MAX, of->presence, of->frequency);
    }
    if (!is_within(repetition_of(of), 1 / RANK_REPETITION_MAX, RANK_REPETITION_MAX)) {
        return base_fail(reterr, BASE_ERR_INVALID, "a repetition penalty is from %g to %g, not %g",
                         1 / RANK_REPETITION_MAX, RANK_REPETITION_MAX, of->repetition);
    }
    return check_biases(how, vocab_size, reterr);
}

bool rank_adjust_any(const rank_adjustment *how)
{
    const rank_penalties *of = how->penalties;
    return of->presence != 0 || of->frequency != 0 || repetition_of(of) != 1 || how->bias_count > 0;
}

static bool is_finite(double value)
{
    return value >= -(double)FLT_MAX && value <= (double)FLT_MAX;
}

static float round_finite(double value)
{
    const double most = (double)FLT_MAX;
    return (float)(value > most ? most : value < -most ? -most : value);
}

static float penalized(const rank_penalties *of, float logit, uint32_t times)
{
    const double repetition = repetition_of(of);
    double value = (double)logit;
    if (!is_finite(value)) {
        return logit;
    }
    value = value > 0 ? value / repetition : value * repetition;
    value -= of->frequency * (double)times;
    value -= times > 0 ? of->presence : 0;
    return round_finite(value);
}

/* A mark of 0 is of a token that was not seen; else it is 1 + how often it is in the text. */
static void penalize(const rank_penalties *of, const rank_adjust_text *text,
                     const rank_adjust_row *row)
{
    for (int32_t i = 0; i < text->count; i++) {
        const int32_t at = text->tokens[i] - row->first;
        if (at >= 0 && at < row->count) {
            const uint32_t before = row->marks[at] > 0 ? row->marks[at] : 1;
            row->marks[at] = before + (i >= text->prompt_count ? 1 : 0);
        }
    }
    for (int32_t i = 0; i < text->count; i++) {
        const int32_t at = text->tokens[i] - row->first;
        if (at >= 0 && at < row->count && row->marks[at] > 0) {
            row->logits[at] = penalized(of, row->logits[at], row->marks[at] - 1);
            row->marks[at] = 0;
        }
    }
}

void rank_adjust(const rank_adjustment *how, const rank_adjust_text *text,
                 const rank_adjust_row *row)
{
    penalize(how->penalties, text, row);
    for (int32_t i = 0; i < how->bias_count; i++) {
        const int32_t at = how->biases[i].token - row->first;
        if (at >= 0 && at < row->count && is_finite((double)row->logits[at])) {
            row->logits[at] = round_finite((double)row->logits[at] + (double)how->biases[i].bias);
        }
    }
}
