/* Chat templates, parsed and run. Called by rank/data. */
#include "jinja.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "limits.h"
#include "parser.h"
#include "row_tables.h"
#include "run.h"
#include "variables.h"

struct rank_jinja {
    jinja_block *blocks; /* all below lies in them */
    jinja_nodes body;
    jinja_names names;
};

static void work_init(jinja_work *work, size_t bytes_max, unsigned depth_max, base_error *reterr)
{
    *work =
        (jinja_work){.bytes_max = bytes_max, .depth_max = depth_max, .line = 1, .reterr = reterr};
}

/* Between setjmp and its return nothing of this frame changes but what the pointers reach. */
static base_status parse(jinja_work *work, const char *source, size_t bytes, rank_jinja *template)
{
    if (setjmp(work->failed) != 0) {
        return work->status;
    }
    template->body = jinja_parse(work, source, bytes, &template->names);
    return BASE_OK;
}

base_status rank_jinja_parse(const char *source, rank_jinja **template, base_error *reterr)
{
    jinja_work work;
    const size_t bytes = strnlen(source, RANK_JINJA_SOURCE_BYTES_MAX + 1);
    *template = NULL;
    if (bytes > RANK_JINJA_SOURCE_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the template has more than %d bytes",
                         RANK_JINJA_SOURCE_BYTES_MAX);
    }
    if (!base_utf8_valid(source, bytes)) {
        return base_fail(reterr, BASE_ERR_INVALID, "the template is not UTF-8");
    }
    rank_jinja *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a template");
    }
    work_init(&work, RANK_JINJA_PARSE_BYTES_MAX, RANK_JINJA_NESTING_MAX, reterr);
    const base_status status = parse(&work, source, bytes, made);
    made->blocks = work.blocks;
    if (status != BASE_OK) {
        rank_jinja_destroy(made);
        return status;
    }
    *template = made;
    return BASE_OK;
}

void rank_jinja_destroy(rank_jinja *template)
{
    if (template != NULL) {
        jinja_free_blocks(template->blocks);
        free(template);
    }
}

bool rank_jinja_reads(const rank_jinja *template, const char *name)
{
    for (size_t i = 0; i < template->names.count; i++) {
        if (strcmp(template->names.at[i], name) == 0) {
            return true;
        }
    }
    return false;
}

typedef struct rendering {
    jinja_work work;
    jinja_text text;
    const rank_jinja *template;
    const rank_jinja_given *given;
} rendering;

static base_status render(rendering *made)
{
    jinja_work *work = &made->work;
    if (setjmp(work->failed) != 0) {
        return work->status;
    }
    jinja_frame *frame = jinja_zeros(work, 1, sizeof *frame);
    jinja_run run = {.work = work, .frame = frame, .text = &made->text, .now = made->given->now};
    if (run.now != NULL) {
        jinja_set_variable(&run, jinja_strftime_now.name,
                           (jinja_value){.kind = JINJA_FUNCTION, .function = &jinja_strftime_now});
    }
    jinja_set_variables(&run, made->given);
    (void)jinja_run_body(&run, &made->template->body);
    return BASE_OK;
}

/* Copies the text out of the work's memory. */
static base_status take_text(const jinja_text *from, rank_jinja_text *text, base_error *reterr)
{
    text->bytes = from->bytes;
    text->at = malloc(from->bytes + 1);
    text->origins = malloc((from->bytes + 1) * sizeof *text->origins);
    if (text->at == NULL || text->origins == NULL) {
        rank_jinja_text_fini(text);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a text of %zu bytes", from->bytes);
    }
    for (size_t i = 0; i < from->bytes; i++) {
        text->at[i] = from->at[i];
        text->origins[i] = from->origins != NULL ? from->origins[i] : from->origin;
    }
    text->at[from->bytes] = '\0';
    return BASE_OK;
}

base_status rank_jinja_render(const rank_jinja *template, const rank_jinja_given *given,
                              rank_jinja_text *text, base_error *reterr)
{
    *text = (rank_jinja_text){.at = NULL};
    rendering *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to run a template");
    }
    work_init(&made->work, RANK_JINJA_RENDER_BYTES_MAX, RANK_JINJA_DEPTH_MAX, reterr);
    made->text.work = &made->work;
    made->template = template;
    made->given = given;
    base_status status = render(made);
    if (status == BASE_OK) {
        status = take_text(&made->text, text, reterr);
    }
    jinja_free_blocks(made->work.blocks);
    free(made);
    return status;
}

void rank_jinja_text_fini(rank_jinja_text *text)
{
    free(text->at);
    free(text->origins);
    *text = (rank_jinja_text){.at = NULL};
}
