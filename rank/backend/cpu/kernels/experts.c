/* Routes rows to experts, moves them there and back, and the gradients of both. Compiled once per
 * instruction set; models call these through the backend. */
#include "kernels_isa.h"

/* A row's logits become their softmax. */
static void soften(float *scores, size_t experts)
{
    float sum = 0.0f;
    float largest = scores[0];
    for (size_t e = 1; e < experts; e++) {
        largest = scores[e] > largest ? scores[e] : largest;
    }
    for (size_t e = 0; e < experts; e += VEC_LANES) {
        const vec logits = vec_load(scores + e, experts - e);
        vec_store(scores + e, vec_exp(logits - largest), experts - e);
    }
    for (size_t e = 0; e < experts; e++) {
        sum += scores[e];
    }
    for (size_t e = 0; e < experts; e++) {
        scores[e] = scores[e] / sum;
    }
}

/* Takes the largest logits, one after the other. */
static void choose(const float *logits, size_t experts, size_t chosen, int32_t *choices)
{
    bool taken[RANK_EXPERTS_MAX] = {false};
    for (size_t k = 0; k < chosen; k++) {
        size_t best = experts;
        for (size_t e = 0; e < experts; e++) {
            if (!taken[e] && (best == experts || logits[e] > logits[best])) {
                best = e;
            }
        }
        taken[best] = true;
    }
    for (size_t e = 0; e < experts; e++) {
        if (taken[e]) {
            *choices++ = (int32_t)e;
        }
    }
}

static void weigh(const rank_route *args, const float *scores, const int32_t *choices,
                  float *weights)
{
    float sum = 0.0f;
    for (size_t k = 0; k < args->chosen; k++) {
        weights[k] = scores[choices[k]];
        sum += weights[k];
    }
    for (size_t k = 0; args->normed && k < args->chosen; k++) {
        weights[k] = weights[k] / sum;
    }
}

/* Sorts the choices by expert: counts them, and gives each its place in the order of rows. */
static void sort_choices(const rank_route *args)
{
    const rank_routing *routing = args->routing;
    const size_t count = args->rows * args->chosen;
    int32_t next[RANK_EXPERTS_MAX] = {0};
    int32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        next[routing->choices[i]]++;
    }
    for (size_t e = 0; e < args->experts; e++) {
        const int32_t of_expert = next[e];
        routing->begins[e] = next[e] = sum;
        sum += of_expert;
    }
    routing->begins[args->experts] = sum;
    for (size_t i = 0; i < count; i++) {
        const int32_t place = next[routing->choices[i]]++;
        routing->places[i] = place;
        routing->at[place] = (int32_t)i;
    }
}

void KERNEL(route)(const rank_route *args)
{
    const rank_routing *routing = args->routing;
    for (size_t row = 0; row < args->rows; row++) {
        float *scores = routing->scores + row * args->experts;
        int32_t *choices = routing->choices + row * args->chosen;
        choose(scores, args->experts, args->chosen, choices);
        soften(scores, args->experts);
        weigh(args, scores, choices, routing->weights + row * args->chosen);
    }
    sort_choices(args);
}

/* The gradient of a row's softmax, from that of its weights. */
static void scores_grad(const rank_route_grad *args, size_t row, float *dscores)
{
    const int32_t *choices = args->routing->choices + row * args->chosen;
    const float *weights = args->routing->weights + row * args->chosen;
    const float *scores = args->routing->scores + row * args->experts;
    const float *dweights = args->dweights + row * args->chosen;
    float sum = args->normed ? 0.0f : 1.0f;
    float mean = 0.0f;
    for (size_t e = 0; e < args->experts; e++) {
        dscores[e] = args->dscores != NULL ? args->dscores[e] : 0.0f;
    }
    for (size_t k = 0; args->normed && k < args->chosen; k++) {
        sum += scores[choices[k]];
        mean += weights[k] * dweights[k];
    }
    for (size_t k = 0; k < args->chosen; k++) {
        dscores[choices[k]] += (dweights[k] - mean) / sum;
    }
}

void KERNEL(route_grad)(const rank_route_grad *args)
{
    float dscores[RANK_EXPERTS_MAX];
    for (size_t row = 0; row < args->rows; row++) {
        const float *scores = args->routing->scores + row * args->experts;
        float *dlogits = args->dlogits + row * args->experts;
        float mean = 0.0f;
        scores_grad(args, row, dscores);
        for (size_t e = 0; e < args->experts; e++) {
            mean += scores[e] * dscores[e];
        }
        for (size_t e = 0; e < args->experts; e++) {
            dlogits[e] = scores[e] * (dscores[e] - mean);
        }
    }
}

void KERNEL(take_places)(const rank_take_places *args)
{
    for (size_t i = 0; i < args->count; i++) {
        const size_t row = (size_t)args->at[i] / args->chosen;
        memcpy(args->to + i * args->width, args->from + row * args->width,
               args->width * sizeof *args->to);
    }
}

void KERNEL(add_places)(const rank_add_places *args)
{
    const size_t width = args->width;
    for (size_t row = 0; row < args->rows; row++) {
        const int32_t *places = args->places + row * args->chosen;
        const float *weights = args->weights != NULL ? args->weights + row * args->chosen : NULL;
        float *to = args->to + row * width;
        for (size_t j = 0; j < width; j += VEC_LANES) {
            vec sum = vec_set(0.0f);
            for (size_t k = 0; k < args->chosen; k++) {
                const vec part = vec_load(args->from + (size_t)places[k] * width + j, width - j);
                sum += weights != NULL ? part * weights[k] : part;
            }
            vec_store(to + j, sum, width - j);
        }
    }
}

void KERNEL(dot_places)(const rank_dot_places *args)
{
    const size_t leaf = args->width / (size_t)args->leaves;
    float sums[RANK_LEAVES_MAX] = {0.0f};
    for (size_t i = 0; i < args->count; i++) {
        const size_t first = i * args->width;
        for (size_t l = 0; l < (size_t)args->leaves; l++) {
            sums[l] = vec_dot(args->a + first + l * leaf, args->b + first + l * leaf, leaf);
        }
        for (int step = 1; step < args->leaves; step *= 2) {
            for (int l = 0; l < args->leaves; l += 2 * step) {
                sums[l] += sums[l + step];
            }
        }
        args->products[args->at[i]] = sums[0];
    }
}

void KERNEL(weigh_places)(const rank_weigh_places *args)
{
    const size_t width = args->width;
    for (size_t i = 0; i < args->count; i++) {
        const float weight = args->weights[args->at[i]];
        float *row = args->rows + i * width;
        for (size_t j = 0; j < width; j += VEC_LANES) {
            vec_store(row + j, vec_load(row + j, width - j) * weight, width - j);
        }
    }
}
