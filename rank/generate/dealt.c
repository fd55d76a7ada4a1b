/* Deals a job's prompts to its ranks, and sends their answers. Called by mode.c. */
#include "generate/dealt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "generate/stream_text.h"
#include "proto/limits.h"
#include "proto/mode.h"

base_status rank_dealt_open(const rank_worker *worker, rank_dealt *dealt, base_error *reterr)
{
    const proto_identity *identity = &worker->identity;
    const proto_job *job = &identity->job;
    *dealt = (rank_dealt){.client = worker->client,
                          .comes_later = job->infer.requests,
                          .prints_lines =
                              job->infer.logprob_count > 0 && job->job.mode == PROTO_MODE_GENERATE};
    dealt->first = (uint64_t)identity->rank;
    dealt->stride = (uint64_t)identity->world_size;
    if (proto_mode_get(job->job.mode)->tensor_parallel) {
        dealt->stride = 1;
    }
    const bool answers = dealt->first < dealt->stride;
    if (job->infer.prompts[0] == '\0' || !(answers || job->infer.baseline)) {
        return BASE_OK;
    }
    const base_status status = proto_prompts_read(job->infer.prompts, &dealt->all, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "--prompts");
    }
    dealt->mine = calloc(dealt->all.count, sizeof *dealt->mine);
    if (dealt->mine == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for prompts");
    }
    for (size_t i = dealt->first; answers && i < dealt->all.count; i += dealt->stride) {
        dealt->mine[dealt->count++] = dealt->all.texts[i];
    }
    return BASE_OK;
}

void rank_dealt_fini(rank_dealt *dealt)
{
    rank_results_destroy(dealt->results);
    free(dealt->mine);
    proto_prompts_fini(&dealt->all);
}

/* Sends an answer to the launcher, which prints it. Requests have had their events. What was
 * cancelled is in the results alone. */
static void send_answer(rank_dealt *all, const rank_answer *answer)
{
    if (all->comes_later || answer->finish == RANK_FINISH_CANCELLED) {
        return;
    }
    const uint64_t index = all->first + answer->index * all->stride;
    char *text = all->prints_lines ? rank_results_line(answer, index)
                                   : rank_stream_text_whole(answer->text, answer->text_bytes);
    if (all->prints_lines && (text == NULL || strlen(text) > PROTO_OUTPUT_BYTES_MAX)) {
        (void)base_fail(&all->trouble, BASE_ERR_LIMIT,
                        "text %" PRIu64 " with its log-probabilities: no memory, or more than %d "
                        "bytes: ask for fewer, or for fewer tokens",
                        index, PROTO_OUTPUT_BYTES_MAX);
        free(text);
        text = NULL;
    }
    proto_client_output(all->client, index, text != NULL ? text : "");
    free(text);
}

void rank_dealt_take(void *user, const rank_answer *answer)
{
    rank_dealt *all = user;
    send_answer(all, answer);
    if (all->results != NULL) {
        rank_results_add(all->results, answer);
    }
}

base_status rank_dealt_check(const rank_dealt *dealt, base_error *reterr)
{
    return dealt->trouble.message[0] == '\0'
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT, "%s", dealt->trouble.message);
}
