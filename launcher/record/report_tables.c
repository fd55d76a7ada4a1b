/* Writes the report's tables: the ranks, the terms, the manifest. Called by report.c. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "record/report.h"
#include "record/run_figures.h"

enum { KEY_BYTES = 256, RANKS_SHOWN = 256 };

static void put_memory(base_buffer *text, uint64_t size_bytes)
{
    base_buffer_printf(text, "%.1f MB", (double)size_bytes / 1e6);
}

static void put_rank(base_buffer *text, int rank, const launch_rank_info *info)
{
    char hex[PROTO_DIGEST_HEX_BYTES];
    char shown[BASE_TEXT_SHOWN_BYTES];
    base_buffer_printf(text, "<tr><td class=\"n\">%d</td><td>", rank);
    base_buffer_html(text, info->host[0] != '\0' ? info->host : "–");
    base_buffer_printf(text, "</td><td class=\"n\">%lld</td><td class=\"n\">",
                       (long long)info->pid);
    base_buffer_count(text, info->sentences_shard);
    base_buffer_put(text, "</td><td class=\"n\">");
    base_buffer_count(text, info->sentences_long);
    base_buffer_put(text, "</td><td class=\"text\">");
    base_text_shorten(info->first_sentence, shown);
    base_buffer_html(text, shown[0] != '\0' ? shown : "–");
    if (!info->finished) {
        base_buffer_put(text, "</td><td class=\"n\">–</td><td class=\"n\">–</td>"
                              "<td class=\"bad\">did not finish</td></tr>\n");
        return;
    }
    proto_digest_hex(info->params_sha256, hex);
    base_buffer_put(text, "</td><td class=\"n\">");
    put_memory(text, info->max_rss_bytes);
    base_buffer_printf(text,
                       "</td><td class=\"n\">%.1f ms</td><td><code title=\"%s\">%.12s…</code> ",
                       (double)info->startup_ns * 1e-6, hex, hex);
    base_buffer_put(text, info->byte_equal ? "<span class=\"good\">same</span></td></tr>\n"
                                           : "<span class=\"bad\">differs</span></td></tr>\n");
}

void launch_report_ranks(const launch_run *run, base_buffer *text)
{
    const int all = (int)run->job->job.world_size;
    const int shown = all < RANKS_SHOWN ? all : RANKS_SHOWN;
    base_buffer_put(text,
                    "<section><h2>The ranks</h2><p class=\"hintline\">Each is a process with ");
    if (proto_mode_get(run->job->job.mode)->pipelined) {
        base_buffer_printf(text,
                           "%ssome layers of the model, which rank 0 has collected in the end. The "
                           "digest is of all parameters.",
                           proto_job_tensor(run->job) > 1 ? "a part of " : "");
    } else if (proto_job_expert_ranks(run->job) > 1) {
        base_buffer_put(text, "its own part of the data, some of the experts, and a copy of the "
                              "rest of the model. The digest is of all parameters.");
    } else {
        base_buffer_put(text, "its own part of the data and a full copy of the model. The digests "
                              "show whether all copies ended the same, to the last bit.");
    }
    base_buffer_put(text,
                    "</p><div class=\"scroll wide\"><table><thead>"
                    "<tr><th class=\"n\">rank</th><th>host</th><th class=\"n\">process</th>"
                    "<th class=\"n\">sentences</th><th class=\"n\">too long</th>"
                    "<th>first sentence</th><th class=\"n\">peak memory</th>"
                    "<th class=\"n\">start-up</th><th>SHA-256 of the parameters</th></tr></thead>"
                    "<tbody>\n");
    for (int r = 0; run->end->ranks != NULL && r < shown; r++) {
        put_rank(text, r, &run->end->ranks[r]);
    }
    base_buffer_put(text, "</tbody></table></div>");
    if (shown < all) {
        base_buffer_printf(text,
                           "<p class=\"none\">The first %d of %d ranks; manifest.json has all."
                           "</p>",
                           shown, all);
    }
    base_buffer_put(text, "</section>\n");
}

static const launch_term RANK_TERM = {"Rank",
                                      "One of the processes that train together, numbered from 0."};

static const launch_term DATA_PARALLEL_TERMS[] = {
    {"Step", "Every rank takes a batch of its own sentences, works out how each parameter should "
             "change (the gradient), the ranks add their gradients up, and all make the same "
             "change."},
    {"Forward and backward", "Running the model on the batch, then working back from its errors "
                             "to the gradients. Useful work."},
    {"All-reduce",
     "The exchange that adds up the ranks' gradients. It starts while backward still "
     "runs. What is transferred between two calls costs nothing; the calls themselves "
     "take this rank's time, and are a part of the step."},
    {"All-reduce after backward",
     "Backward is done, the sum is not: the time that the last rank to get there needs. The "
     "price of having several processes."},
};

static const launch_term PIPELINE_TERMS[] = {
    {"Stage", "A rank, or several, with some of the model's layers. Micro-batches go through all "
              "stages forward, and back."},
    {"Step",
     "The stages work on some micro-batches, one behind the other, and add up what each of "
     "them says of how the parameters should change (the gradient). Then each stage changes "
     "its own."},
    {"Micro-batch", "The part of a step that goes through the stages at one time."},
    {"Bubble", "The share of the time from the first stage's first forward to its last backward in "
               "which stages are idle."},
    {"Held", "How many micro-batches a stage keeps the activations of at one time, at most."},
    {"Tied matrix", "The embedding, which is the output's matrix as well. The first and the last "
                    "stage both have it, and add up its gradients."},
    {"Forward and backward", "This stage's, of all micro-batches. Useful work."},
    {"All-reduce after backward",
     "The sums at the end of a step: of losses, of the gradient's norm, "
     "and of gradients where several ranks have the same layers."},
};

static const launch_term ZERO_TERMS[] = {
    {"Shards", "A rank keeps only its part of gradients, moments and, with --zero 3, parameters. "
               "Gradients are added up by reduce-scatter, parameters come by all-gather; both "
               "count as all-reduce here. What forward and backward wait for them is in "
               "&ldquo;all-reduce after backward&rdquo;, too."},
};

static const launch_term LOCAL_TERMS[] = {
    {"Local steps",
     "Here every rank makes the change of its own gradient, step by step, and no gradient is "
     "exchanged. At the end of a round the ranks add up what each has changed, and all go on "
     "from the same parameters. What steps exchange besides is their losses."},
};

static const launch_term INNER_TERMS[] = {
    {"Exchanging in forward and backward",
     "What ranks that share the layers of a stage, the tokens of a batch or the experts send to "
     "each other there, and the waiting for each other. The rest of forward and backward is "
     "computing."},
};

static const launch_term TIME_TERMS[] = {
    {"Last to arrive",
     "The rank that reaches the all-reduce after backward last in a step. It waits for nobody "
     "there and all others wait for it, so its work is what the step takes. Which rank that "
     "is can change from step to step."},
    {"Waiting for other ranks",
     "What another rank spends there beyond that: the last one holds up all. In a pipeline "
     "also the wait for messages of the stages beside it."},
    {"Optimizer", "AdamW, or Muon for matrices, turns the summed gradient into a change of every "
                  "parameter."},
    {"Other", "What is left of a step: bookkeeping, time without a core, and by what another rank "
              "began the step earlier or ended it later than the last to arrive."},
    {"Loss", "How surprised the model is by the right text, per token (natural logarithm). Lower "
             "is better; 0 is certain and right."},
    {"Tokens/s", "Pieces of text per second, all ranks together, by the time of the rank that took "
                 "longest for all of these steps."},
    {"Efficiency", "Speed-up over one process, divided by the number of processes."},
    {"Warm-up", "The first half of the steps. Speeds and times are taken over the last half."},
    {"Median, p95", "Half of the values, or 95 % of them, are below."},
};

enum { TERMS_MAX = 24 };

static void add_terms(launch_term *shown, size_t *count, const launch_term *terms, size_t more)
{
    BASE_ASSERT(*count + more <= TERMS_MAX);
    memcpy(shown + *count, terms, more * sizeof *terms);
    *count += more;
}

#define ADD_TERMS(terms) add_terms(shown, &count, terms, sizeof(terms) / sizeof(terms)[0])

void launch_report_training_terms(base_buffer *text, const proto_job *job)
{
    launch_term shown[TERMS_MAX];
    size_t count = 0;
    add_terms(shown, &count, &RANK_TERM, 1);
    if (proto_mode_get(job->job.mode)->pipelined) {
        ADD_TERMS(PIPELINE_TERMS);
    } else {
        ADD_TERMS(DATA_PARALLEL_TERMS);
    }
    if (job->parallel.zero >= PROTO_ZERO_GRADIENTS) {
        ADD_TERMS(ZERO_TERMS);
    }
    if (proto_job_is_local(job)) {
        ADD_TERMS(LOCAL_TERMS);
    }
    if (launch_exchanges_inside(job)) {
        ADD_TERMS(INNER_TERMS);
    }
    ADD_TERMS(TIME_TERMS);
    launch_report_terms(text, shown, count);
}

static void put_value(base_buffer *text, const json_t *value)
{
    char *json = NULL;
    if (json_is_string(value)) {
        base_buffer_html(text, json_string_value(value));
    } else if (json_is_null(value)) {
        base_buffer_put(text, "<span class=\"none\">–</span>");
    } else {
        json = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        base_buffer_html(text, json != NULL ? json : "");
        free(json);
    }
}

static void put_rows(base_buffer *text, const char *key, json_t *value);

static void put_members(base_buffer *text, const char *key, json_t *object)
{
    const char *name = NULL;
    json_t *member = NULL;
    json_object_foreach(object, name, member)
    {
        char path[KEY_BYTES];
        (void)snprintf(path, sizeof path, "%s%s%s", key, key[0] != '\0' ? "." : "", name);
        put_rows(text, path, member);
    }
}

static void put_elements(base_buffer *text, const char *key, const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array) && i < RANKS_SHOWN; i++) {
        char path[KEY_BYTES];
        (void)snprintf(path, sizeof path, "%s[%zu]", key, i);
        put_rows(text, path, json_array_get(array, i));
    }
}

/* One row, or the rows of its members. The manifest is ours and three levels deep. */
static void put_rows(base_buffer *text, const char *key, json_t *value)
{
    if (json_is_object(value)) {
        put_members(text, key, value);
        return;
    }
    if (json_is_array(value) && !json_is_string(json_array_get(value, 0))) {
        put_elements(text, key, value);
        return;
    }
    base_buffer_put(text, "<tr><td>");
    base_buffer_html(text, key);
    base_buffer_put(text, "</td><td>");
    put_value(text, value);
    base_buffer_put(text, "</td></tr>\n");
}

base_status launch_report_manifest(const char *manifest, base_buffer *text, base_error *reterr)
{
    json_t *object = json_loads(manifest, JSON_REJECT_DUPLICATES, NULL);
    if (object == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the report's table");
    }
    base_buffer_put(text, "<section><details><summary><h2>The manifest</h2></summary>"
                          "<p class=\"hintline\">All of manifest.json: "
                          "what ran, on what, and what came out.</p><div class=\"scroll\">"
                          "<table class=\"manifest\"><tbody>\n");
    put_rows(text, "", object);
    base_buffer_put(text, "</tbody></table></div></details></section>\n");
    json_decref(object);
    return BASE_OK;
}
