#include "rank/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* The sequences that are generated together; every array is sized for `capacity` sequences of a
 * whole context. */
typedef struct round_state {
    const rank_generate_options *options;
    size_t capacity;
    size_t count;      /* sequences in this group */
    bool stopped;      /* should_stop has said so */
    int32_t *sequence; /* (capacity, context) */
    int *length;       /* (capacity) */
    int *prompt_length;
    bool *done;
    int32_t *packed; /* (capacity × context) */
    int32_t *segment_start;
    int32_t *logit_rows;
    size_t *active; /* sequence of each segment */
    float *logits;  /* (capacity, vocab) */
} round_state;

static void round_free(round_state *state)
{
    free(state->sequence);
    free(state->length);
    free(state->prompt_length);
    free(state->done);
    free(state->packed);
    free(state->segment_start);
    free(state->logit_rows);
    free(state->active);
    free(state->logits);
}

static base_status round_alloc(round_state *state, const rank_generate_options *options,
                               base_error *reterr)
{
    const size_t context = (size_t)options->config->context;
    const size_t vocab = (size_t)options->config->vocab_size;
    BASE_ASSERT(options->token_count_max >= options->config->context);
    *state =
        (round_state){.options = options, .capacity = (size_t)options->token_count_max / context};
    state->sequence = calloc(state->capacity * context, sizeof *state->sequence);
    state->length = calloc(state->capacity, sizeof *state->length);
    state->prompt_length = calloc(state->capacity, sizeof *state->prompt_length);
    state->done = calloc(state->capacity, sizeof *state->done);
    state->packed = calloc(state->capacity * context, sizeof *state->packed);
    state->segment_start = calloc(state->capacity + 1, sizeof *state->segment_start);
    state->logit_rows = calloc(state->capacity, sizeof *state->logit_rows);
    state->active = calloc(state->capacity, sizeof *state->active);
    state->logits = calloc(state->capacity * vocab, sizeof *state->logits);
    if (state->sequence == NULL || state->length == NULL || state->prompt_length == NULL ||
        state->done == NULL || state->packed == NULL || state->segment_start == NULL ||
        state->logit_rows == NULL || state->active == NULL || state->logits == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to generate");
    }
    return BASE_OK;
}

static base_status encode_prompt(round_state *state, size_t slot, const char *prompt,
                                 base_error *reterr)
{
    const rank_generate_options *options = state->options;
    const size_t context = (size_t)options->config->context;
    char text[RANK_GENERATE_TEXT_BYTES];
    size_t count = 0;
    const bool has_arrow = strstr(prompt, RANK_DATA_ARROW) != NULL;
    const int length = snprintf(text, sizeof text, "%s%s", prompt,
                                options->correction && !has_arrow ? RANK_DATA_ARROW : "");
    if (length < 0 || (size_t)length >= sizeof text) {
        return base_fail(reterr, BASE_ERR_INVALID, "a prompt is longer than %d bytes: %.40s…",
                         RANK_GENERATE_TEXT_BYTES - 1, prompt);
    }
    const base_status status =
        rank_tokenizer_encode(options->tokenizer, text, (size_t)length,
                              state->sequence + slot * context, context, &count, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (count == 0 || count >= context) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a prompt must have 1 to %zu tokens, this one has %zu: \"%.60s\"",
                         context - 1, count, prompt);
    }
    state->length[slot] = (int)count;
    state->prompt_length[slot] = (int)count;
    state->done[slot] = false;
    return BASE_OK;
}

/* Packs the unfinished sequences; returns how many there are. */
static int pack(round_state *state, rank_batch *batch)
{
    const size_t context = (size_t)state->options->config->context;
    int segments = 0;
    int32_t used = 0;
    for (size_t slot = 0; slot < state->count; slot++) {
        if (state->done[slot]) {
            continue;
        }
        const int length = state->length[slot];
        memcpy(state->packed + used, state->sequence + slot * context,
               (size_t)length * sizeof *state->packed);
        state->segment_start[segments] = used;
        used += length;
        state->logit_rows[segments] = used - 1;
        state->active[segments] = slot;
        segments++;
    }
    state->segment_start[segments] = used;
    *batch = (rank_batch){
        .token_count = used,
        .ids = state->packed,
        .segment_count = segments,
        .segment_start = state->segment_start,
    };
    return segments;
}

static int32_t most_probable(const float *logits, int vocab)
{
    int32_t best = 0;
    for (int32_t id = 1; id < vocab; id++) {
        if (logits[id] > logits[best]) {
            best = id;
        }
    }
    return best;
}

static void append_token(round_state *state, size_t slot, int32_t id)
{
    const rank_generate_options *options = state->options;
    const int context = options->config->context;
    if (id == rank_tokenizer_end_id(options->tokenizer)) {
        state->done[slot] = true;
        return;
    }
    state->sequence[slot * (size_t)context + (size_t)state->length[slot]] = id;
    state->length[slot]++;
    const int made = state->length[slot] - state->prompt_length[slot];
    state->done[slot] = state->length[slot] == context || made >= options->new_tokens_max;
}

static bool asked_to_stop(const rank_generate_options *options)
{
    return options->should_stop != NULL && options->should_stop(options->stop_user);
}

static base_status generate_group(round_state *state, base_error *reterr)
{
    const rank_generate_options *options = state->options;
    const int vocab = options->config->vocab_size;
    rank_batch batch;
    for (int segments = pack(state, &batch); segments > 0; segments = pack(state, &batch)) {
        state->stopped = asked_to_stop(options);
        if (state->stopped) {
            return BASE_OK;
        }
        const base_status status =
            rank_model_forward(options->model, options->params, &batch, state->logit_rows, segments,
                               state->logits, NULL, NULL, reterr);
        if (status != BASE_OK) {
            return status;
        }
        for (int i = 0; i < segments; i++) {
            const float *logits = state->logits + (size_t)i * (size_t)vocab;
            append_token(state, state->active[i], most_probable(logits, vocab));
        }
    }
    return BASE_OK;
}

static void hand_out(const round_state *state, const char *const *prompts, size_t first,
                     rank_on_answer on_answer, void *user)
{
    const size_t context = (size_t)state->options->config->context;
    for (size_t slot = 0; slot < state->count; slot++) {
        char text[RANK_GENERATE_TEXT_BYTES];
        const int32_t *made = state->sequence + slot * context + state->prompt_length[slot];
        const int count = state->length[slot] - state->prompt_length[slot];
        (void)rank_tokenizer_decode(state->options->tokenizer, made, (size_t)count, text,
                                    sizeof text);
        const char *answer = text[0] == ' ' ? text + 1 : text;
        on_answer(user, first + slot, prompts[first + slot], answer);
    }
}

base_status rank_generate(const rank_generate_options *options, const char *const *prompts,
                          size_t prompt_count, rank_on_answer on_answer, void *user,
                          base_error *reterr)
{
    round_state state;
    base_status status = round_alloc(&state, options, reterr);
    for (size_t first = 0; status == BASE_OK && !state.stopped && first < prompt_count;
         first += state.capacity) {
        const size_t left = prompt_count - first;
        state.count = left < state.capacity ? left : state.capacity;
        for (size_t slot = 0; status == BASE_OK && slot < state.count; slot++) {
            status = encode_prompt(&state, slot, prompts[first + slot], reterr);
        }
        if (status == BASE_OK) {
            status = generate_group(&state, reterr);
        }
        if (status == BASE_OK && !state.stopped) {
            hand_out(&state, prompts, first, on_answer, user);
        }
    }
    round_free(&state);
    return status;
}
