/* Checks how many ranks share a stage's layers. Called by job_layout.c. */
#include "job_tensor.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "proto/limits.h"

/* Of a GPT-2: the columns of its MLP, and how many of them are never split. */
enum { MLP_WIDENING = 4, MLP_UNIT = 16 };

/* A vocabulary is cut into so many leaves, which are equal, and as wide as a multiple of this. */
enum { VOCAB_LEAVES = 16, VOCAB_LEAF_STEP = 32 };

/* Whether the first id of the last rank's leaves is one of the vocabulary's. */
static bool cuts_vocab(const proto_job_model *model, int64_t ranks)
{
    const int64_t width = (model->vocab_size + VOCAB_LEAVES - 1) / VOCAB_LEAVES;
    const int64_t leaf = (width + VOCAB_LEAF_STEP - 1) / VOCAB_LEAF_STEP * VOCAB_LEAF_STEP;
    return VOCAB_LEAVES * (ranks - 1) / ranks * leaf < model->vocab_size;
}

/* Of a checkpoint's model the rank finds out, which knows its family. */
static bool cuts_heads(const proto_job_model *model, int64_t ranks)
{
    return model->checkpoint[0] != '\0' || model->heads % ranks == 0;
}

/* Or of an expert. */
static int64_t mlp_columns(const proto_job_model *model)
{
    return model->experts > 0 ? proto_job_expert_width(model) : MLP_WIDENING * model->width;
}

static bool cuts_mlp(const proto_job_model *model, int64_t ranks)
{
    return model->checkpoint[0] != '\0' || ranks == 1 ||
           mlp_columns(model) % (MLP_UNIT * ranks) == 0;
}

static bool cuts_all(const proto_job_model *model, int64_t ranks)
{
    return cuts_heads(model, ranks) && cuts_mlp(model, ranks) && cuts_vocab(model, ranks);
}

base_status proto_job_check_tensor(const proto_job *job, base_error *reterr)
{
    const proto_job_model *model = &job->model;
    const int64_t ranks = proto_job_tensor(job);
    char fitting[64] = "";
    char what[96];
    if (!proto_is_power_of_two(ranks)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "parallel.tensor %" PRId64 ": must be 1, 2, 4, 8 or 16", ranks);
    }
    if (cuts_all(model, ranks)) {
        return BASE_OK;
    }
    for (int64_t n = 1; n <= PROTO_TENSOR_RANKS_MAX; n *= 2) {
        if (cuts_all(model, n)) {
            base_text_append(fitting, sizeof fitting, "%s%" PRId64, n > 1 ? ", " : "", n);
        }
    }
    if (!cuts_heads(model, ranks)) {
        (void)snprintf(what, sizeof what, "model of %" PRId64 " heads", model->heads);
    } else if (!cuts_mlp(model, ranks)) {
        (void)snprintf(what, sizeof what,
                       "model of width %" PRId64 ", whose MLP is cut by %d columns,", model->width,
                       MLP_UNIT);
    } else {
        (void)snprintf(what, sizeof what, "vocabulary of %" PRId64 " tokens", model->vocab_size);
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "parallel.tensor %" PRId64 ": a %s cannot be cut between %" PRId64
                     " ranks; it can between %s",
                     ranks, what, ranks, fitting);
}
