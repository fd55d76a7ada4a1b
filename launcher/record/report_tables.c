/* Writes the report's tables: the ranks, the terms, the manifest. Called by report.c. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "record/report.h"

enum { KEY_BYTES = 256, RANKS_SHOWN = 256 };

static void put_memory(launch_text *text, uint64_t size_bytes)
{
    launch_text_printf(text, "%.1f MB", (double)size_bytes / 1e6);
}

static void put_rank(launch_text *text, int rank, const launch_rank_info *info)
{
    char hex[PROTO_DIGEST_HEX_BYTES];
    char shown[BASE_TEXT_SHOWN_BYTES];
    launch_text_printf(text, "<tr><td class=\"n\">%d</td><td>", rank);
    launch_text_html(text, info->host[0] != '\0' ? info->host : "–");
    launch_text_printf(text, "</td><td class=\"n\">%lld</td><td class=\"n\">",
                       (long long)info->pid);
    launch_text_count(text, info->sentences_shard);
    launch_text_put(text, "</td><td class=\"n\">");
    launch_text_count(text, info->sentences_long);
    launch_text_put(text, "</td><td>");
    base_text_shorten(info->first_sentence, shown);
    launch_text_html(text, shown[0] != '\0' ? shown : "–");
    if (!info->finished) {
        launch_text_put(text, "</td><td class=\"n\">–</td><td class=\"n\">–</td>"
                              "<td class=\"bad\">did not finish</td></tr>\n");
        return;
    }
    proto_digest_hex(info->params_sha256, hex);
    launch_text_put(text, "</td><td class=\"n\">");
    put_memory(text, info->max_rss_bytes);
    launch_text_printf(text,
                       "</td><td class=\"n\">%.1f ms</td><td><code title=\"%s\">%.12s…</code> ",
                       (double)info->startup_ns * 1e-6, hex, hex);
    launch_text_put(text, info->byte_equal ? "<span class=\"good\">same</span></td></tr>\n"
                                           : "<span class=\"bad\">differs</span></td></tr>\n");
}

void launch_report_ranks(const launch_run *run, launch_text *text)
{
    const int all = (int)run->job->job.world_size;
    const int shown = all < RANKS_SHOWN ? all : RANKS_SHOWN;
    launch_text_put(text,
                    "<section><h2>The ranks</h2><p class=\"hintline\">Each is a process with ");
    if (proto_mode_get(run->job->job.mode)->pipelined) {
        launch_text_printf(text,
                           "%ssome layers of the model, which rank 0 has collected in the end. The "
                           "digest is of all parameters.",
                           proto_job_tensor(run->job) > 1 ? "a part of " : "");
    } else {
        launch_text_put(text, "its own part of the data and a full copy of the model. The digests "
                              "show whether all copies ended the same, to the last bit.");
    }
    launch_text_put(text,
                    "</p><div class=\"scroll wide\"><table><thead>"
                    "<tr><th class=\"n\">rank</th><th>host</th><th class=\"n\">process</th>"
                    "<th class=\"n\">sentences</th><th class=\"n\">too long</th>"
                    "<th>first sentence</th><th class=\"n\">peak memory</th>"
                    "<th class=\"n\">start-up</th><th>SHA-256 of the parameters</th></tr></thead>"
                    "<tbody>\n");
    for (int r = 0; run->end->ranks != NULL && r < shown; r++) {
        put_rank(text, r, &run->end->ranks[r]);
    }
    launch_text_put(text, "</tbody></table></div>");
    if (shown < all) {
        launch_text_printf(text,
                           "<p class=\"none\">The first %d of %d ranks; manifest.json has all."
                           "</p>",
                           shown, all);
    }
    launch_text_put(text, "</section>\n");
}

void launch_report_training_terms(launch_text *text)
{
    static const launch_term TERMS[] = {
        {"Rank", "One of the processes that train together, numbered from 0."},
        {"Step",
         "Every rank takes a batch of its own sentences, works out how each parameter should "
         "change (the gradient), the ranks add their gradients up, and all make the same "
         "change."},
        {"Forward and backward",
         "Running the model on the batch, then working back from its errors "
         "to the gradients. Useful work."},
        {"All-reduce",
         "The exchange that adds up the ranks' gradients. It starts while backward still "
         "runs, so part of it costs nothing."},
        {"All-reduce after backward",
         "Backward is done, the sum is not: the time that the last rank to get there needs. The "
         "price of having several processes."},
        {"Last to arrive",
         "The rank that reaches the all-reduce after backward last in a step. It waits for nobody "
         "there and all others wait for it, so its work is what the step takes. Which rank that "
         "is can change from step to step."},
        {"Waiting for other ranks",
         "What another rank spends there beyond that: the last one holds up all. In a pipeline "
         "also the wait for messages of the stages beside it."},
        {"Optimizer", "AdamW turns the summed gradient into a change of every parameter."},
        {"Other",
         "What is left of a step: bookkeeping, time without a core, and by what another rank began "
         "the step earlier or ended it later than the last to arrive."},
        {"Loss",
         "How surprised the model is by the right text, per token (natural logarithm). Lower "
         "is better; 0 is certain and right."},
        {"Tokens/s",
         "Pieces of text per second, all ranks together, by the time of the rank that took longest "
         "for all of these steps."},
        {"Efficiency", "Speed-up over one process, divided by the number of processes."},
        {"Warm-up", "The first half of the steps. Speeds and times are taken over the last half."},
        {"Median, p95", "Half of the values, or 95 % of them, are below."},
    };
    launch_report_terms(text, TERMS, sizeof TERMS / sizeof TERMS[0]);
}

static void put_value(launch_text *text, const json_t *value)
{
    char *json = NULL;
    if (json_is_string(value)) {
        launch_text_html(text, json_string_value(value));
    } else if (json_is_null(value)) {
        launch_text_put(text, "<span class=\"none\">–</span>");
    } else {
        json = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        launch_text_html(text, json != NULL ? json : "");
        free(json);
    }
}

static void put_rows(launch_text *text, const char *key, json_t *value);

static void put_members(launch_text *text, const char *key, json_t *object)
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

static void put_elements(launch_text *text, const char *key, const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array) && i < RANKS_SHOWN; i++) {
        char path[KEY_BYTES];
        (void)snprintf(path, sizeof path, "%s[%zu]", key, i);
        put_rows(text, path, json_array_get(array, i));
    }
}

/* One row, or the rows of its members. The manifest is ours and three levels deep. */
static void put_rows(launch_text *text, const char *key, json_t *value)
{
    if (json_is_object(value)) {
        put_members(text, key, value);
        return;
    }
    if (json_is_array(value) && !json_is_string(json_array_get(value, 0))) {
        put_elements(text, key, value);
        return;
    }
    launch_text_put(text, "<tr><td>");
    launch_text_html(text, key);
    launch_text_put(text, "</td><td>");
    put_value(text, value);
    launch_text_put(text, "</td></tr>\n");
}

base_status launch_report_manifest(const char *manifest, launch_text *text, base_error *reterr)
{
    json_t *object = json_loads(manifest, JSON_REJECT_DUPLICATES, NULL);
    if (object == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the report's table");
    }
    launch_text_put(text,
                    "<section><h2>The manifest</h2><p class=\"hintline\">All of manifest.json: "
                    "what ran, on what, and what came out.</p><div class=\"scroll\">"
                    "<table class=\"manifest\"><tbody>\n");
    put_rows(text, "", object);
    launch_text_put(text, "</tbody></table></div></section>\n");
    json_decref(object);
    return BASE_OK;
}
