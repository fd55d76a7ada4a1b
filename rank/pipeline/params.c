/* Moves parameters between rank 0, which has all of them at the beginning and at the end, and the
 * ranks of its replica. Called by train/prepare.c and train/finish.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

enum { DIGEST_FLOATS = RANK_DIGEST_BYTES / sizeof(float) }; /* as messages are counted */

/* A tensor that a member holds. */
typedef struct held_tensor {
    int index;
    rank_tensor tensor; /* its part */
    size_t place;       /* in the member's array */
} held_tensor;

/* The next one from *index on, which moves behind it. */
static bool next_held(const pipeline_member *member, int *index, held_tensor *next)
{
    for (; *index < rank_model_tensor_count(&member->config); (*index)++) {
        next->index = *index;
        rank_model_tensor(&member->config, *index, &next->tensor);
        if (rank_held_has(&member->held, next->tensor.offset)) {
            next->place = rank_held_place(&member->held, next->tensor.offset);
            (*index)++;
            return true;
        }
    }
    return false;
}

static void take_digest(const rank_pipeline *pipeline, const float *values, size_t count,
                        uint8_t digest[RANK_DIGEST_BYTES])
{
    const rank_device *device = &pipeline->device;
    device->backend->digest(
        device->queue,
        &(rank_digest){.at = values, .size_bytes = count * sizeof *values, .digest = digest});
}

/* Sends a member of the replica its part, and then the part's digest. */
static base_status send_part(const rank_pipeline *pipeline, int member, const float *part,
                             size_t count, base_error *reterr)
{
    float message[DIGEST_FLOATS];
    uint8_t digest[RANK_DIGEST_BYTES];
    take_digest(pipeline, part, count, digest);
    memcpy(message, digest, sizeof digest);
    const base_status status = pipeline_send(pipeline->copy, member, part, count, reterr);
    return status == BASE_OK ? pipeline_send(pipeline->copy, member, message, DIGEST_FLOATS, reterr)
                             : status;
}

static base_status receive_part(const rank_pipeline *pipeline, float *part, base_error *reterr)
{
    float message[DIGEST_FLOATS];
    uint8_t digest[RANK_DIGEST_BYTES];
    base_status status = pipeline_receive(pipeline->copy, 0, part, pipeline->held.count, reterr);
    if (status == BASE_OK) {
        status = pipeline_receive(pipeline->copy, 0, message, DIGEST_FLOATS, reterr);
    }
    if (status == BASE_OK) {
        take_digest(pipeline, part, pipeline->held.count, digest);
        if (memcmp(digest, message, sizeof digest) != 0) {
            status = base_fail(reterr, BASE_ERR_MISMATCH,
                               "this rank has received other values than rank 0 has sent");
        }
    }
    return status;
}

/* Takes what a member holds out of all parameters. */
static void take_parts(const pipeline_member *member, const float *whole, float *packed)
{
    held_tensor held;
    for (int index = 0; next_held(member, &index, &held);) {
        rank_model_take_part(&member->config, held.index, whole, packed + held.place);
    }
}

static base_status give(const rank_pipeline *pipeline, int rank, const float *whole,
                        base_error *reterr)
{
    const pipeline_member member = pipeline_member_of(pipeline, rank);
    float *packed = malloc(member.held.count * sizeof *packed);
    if (packed == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the parameters of a rank");
    }
    take_parts(&member, whole, packed);
    const base_status status = send_part(pipeline, rank, packed, member.held.count, reterr);
    free(packed);
    return status;
}

/* Rank 0 takes what it holds, and gives the others theirs. */
static base_status share_out(const rank_pipeline *pipeline, const float *whole, float *params,
                             uint8_t digest[RANK_DIGEST_BYTES], base_error *reterr)
{
    const pipeline_member own = pipeline_member_of(pipeline, 0);
    const rank_model_config all = pipeline_whole(pipeline);
    base_status status = BASE_OK;
    take_parts(&own, whole, params);
    take_digest(pipeline, whole, rank_model_param_count(&all), digest);
    for (int rank = 1; status == BASE_OK && rank < coll_comm_size(pipeline->copy); rank++) {
        status = give(pipeline, rank, whole, reterr);
    }
    return status;
}

/* Among the ranks of the first replica. */
static base_status scatter(const rank_pipeline *pipeline, const float *whole, float *params,
                           uint8_t digest[RANK_DIGEST_BYTES], base_error *reterr)
{
    const base_status status = coll_comm_rank(pipeline->copy) > 0
                                   ? receive_part(pipeline, params, reterr)
                                   : share_out(pipeline, whole, params, digest, reterr);
    return status == BASE_OK
               ? (base_status)coll_broadcast(pipeline->copy, digest, RANK_DIGEST_BYTES, COLL_UINT8,
                                             0, coll_error_of(reterr))
               : status;
}

base_status rank_pipeline_scatter(rank_pipeline *pipeline, const float *whole, float *params,
                                  uint8_t digest[RANK_DIGEST_BYTES], base_error *reterr)
{
    base_status status =
        pipeline->replica == 0 ? scatter(pipeline, whole, params, digest, reterr) : BASE_OK;
    if (status == BASE_OK) {
        status = pipeline_give_replicas(pipeline, params, digest, reterr);
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "sharing the parameters");
}

/* Whether an earlier rank has the same values. */
static bool is_copy(const rank_pipeline *pipeline, const pipeline_member *member, int rank,
                    const held_tensor *held)
{
    const bool tied =
        rank >= rank_tensor_ranks(&pipeline->config) && held->place < member->held.tied_count;
    return tied || (member->config.tensor_rank > 0 && held->tensor.cut.kind == RANK_CUT_NONE);
}

/* Compares a member's copy with the values in `whole`. */
static base_status compare_copy(const rank_pipeline *pipeline, const pipeline_member *member,
                                const held_tensor *held, const float *whole, const float *copy,
                                rank_pipeline_copies *copies, base_error *reterr)
{
    const size_t count = held->tensor.count;
    bool equal = false;
    double largest = 0.0;
    float *reference = malloc(count * sizeof *reference);
    if (reference == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to compare parameters");
    }
    rank_model_take_part(&member->config, held->index, whole, reference);
    pipeline->device.backend->difference(
        pipeline->device.queue,
        &(rank_difference){
            .a = copy, .b = reference, .count = count, .equal = &equal, .largest = &largest});
    free(reference);
    copies->byte_equal = copies->byte_equal && equal;
    if (!isnan(copies->max_abs_difference) && !(largest <= copies->max_abs_difference)) {
        copies->max_abs_difference = largest;
    }
    return BASE_OK;
}

/* On rank 0: takes a member's parameters, or compares those that are here already. */
static base_status take(const rank_pipeline *pipeline, int rank, float *whole,
                        rank_pipeline_copies *copies, base_error *reterr)
{
    const pipeline_member member = pipeline_member_of(pipeline, rank);
    held_tensor held;
    float *packed = malloc(member.held.count * sizeof *packed);
    if (packed == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the parameters of a rank");
    }
    base_status status = pipeline_receive(pipeline->copy, rank, packed, member.held.count, reterr);
    for (int index = 0; status == BASE_OK && next_held(&member, &index, &held);) {
        float *at = packed + held.place;
        if (is_copy(pipeline, &member, rank, &held)) {
            status = compare_copy(pipeline, &member, &held, whole, at, copies, reterr);
        } else {
            rank_model_put_part(&member.config, held.index, at, whole);
        }
    }
    free(packed);
    return status;
}

static base_status collect(const rank_pipeline *pipeline, const float *params, float *whole,
                           rank_pipeline_copies *copies, base_error *reterr)
{
    const pipeline_member own = pipeline_member_of(pipeline, 0);
    held_tensor held;
    base_status status = BASE_OK;
    for (int index = 0; next_held(&own, &index, &held);) {
        rank_model_put_part(&own.config, held.index, params + held.place, whole);
    }
    for (int rank = 1; status == BASE_OK && rank < coll_comm_size(pipeline->copy); rank++) {
        status = take(pipeline, rank, whole, copies, reterr);
    }
    return status;
}

base_status rank_pipeline_gather(rank_pipeline *pipeline, const float *params, float *whole,
                                 rank_pipeline_copies *copies, base_error *reterr)
{
    *copies = (rank_pipeline_copies){.byte_equal = true};
    if (pipeline->replica > 0) {
        return BASE_OK;
    }
    const base_status status =
        coll_comm_rank(pipeline->copy) > 0
            ? pipeline_send(pipeline->copy, 0, params, pipeline->held.count, reterr)
            : collect(pipeline, params, whole, copies, reterr);
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "collecting the parameters");
}
