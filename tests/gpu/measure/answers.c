/* Compares the answers of two runs to the same prompts. Called by main.c. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "model.h"

enum { TOKENS_MAX = 1024 };

typedef struct comparison {
    measured_model model; /* on the CPU */
    int answers;
    int different;
    double gap; /* the largest of those that differ */
} comparison;

/* The list of prompts of a results.json; *file holds it. */
static base_status read_prompts(const char *path, json_t **file, const json_t **prompts,
                                base_error *reterr)
{
    json_error_t error;
    *file = json_load_file(path, 0, &error);
    *prompts = json_object_get(*file, "prompts");
    return json_array_size(*prompts) > 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%s has no answers: %s", path, error.text);
}

static int id_at(const json_t *list, size_t i)
{
    return (int)json_integer_value(json_array_get(list, i));
}

/* How much more probable the CPU's logits make the expected token than the one that was found,
 * after the tokens that both have. */
static base_status measure_gap(comparison *c, const json_t *prompt, const json_t *expected,
                               const json_t *found, size_t common, base_error *reterr)
{
    int32_t ids[TOKENS_MAX];
    float *logits = NULL;
    const size_t before = json_array_size(prompt);
    if (before + common > TOKENS_MAX || before == 0 || common >= json_array_size(expected) ||
        common >= json_array_size(found)) {
        return base_fail(reterr, BASE_ERR_INVALID, "answer %d has another length", c->answers);
    }
    for (size_t i = 0; i < before + common; i++) {
        ids[i] = i < before ? id_at(prompt, i) : id_at(expected, i - before);
    }
    const base_status status =
        measured_model_run(&c->model, ids, (int)(before + common), 1, &logits, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const double gap = (double)logits[id_at(expected, common)] - logits[id_at(found, common)];
    c->gap = gap > c->gap ? gap : c->gap;
    free(logits);
    return BASE_OK;
}

static base_status compare_one(comparison *c, const json_t *expected, const json_t *found,
                               base_error *reterr)
{
    const json_t *prompt = json_object_get(expected, "prompt_token_ids");
    const json_t *ours = json_object_get(expected, "token_ids");
    const json_t *theirs = json_object_get(found, "token_ids");
    size_t common = 0;
    c->answers++;
    if (!json_equal(prompt, json_object_get(found, "prompt_token_ids"))) {
        return base_fail(reterr, BASE_ERR_MISMATCH, "answer %d is to another prompt", c->answers);
    }
    if (json_equal(ours, theirs)) {
        return BASE_OK;
    }
    c->different++;
    while (common < json_array_size(ours) && common < json_array_size(theirs) &&
           id_at(ours, common) == id_at(theirs, common)) {
        common++;
    }
    return measure_gap(c, prompt, ours, theirs, common, reterr);
}

base_status measure_answers(const char *checkpoint, const char *expected_path,
                            const char *found_path, base_error *reterr)
{
    comparison c = {.answers = 0};
    json_t *files[2] = {NULL, NULL};
    const json_t *expected = NULL;
    const json_t *found = NULL;
    rank_device cpu = {.backend = NULL};
    base_status status = rank_device_open("cpu", &cpu, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = measured_model_open(&c.model, &cpu, checkpoint, TOKENS_MAX, 1, reterr);
    if (status == BASE_OK) {
        status = read_prompts(expected_path, &files[0], &expected, reterr);
    }
    if (status == BASE_OK) {
        status = read_prompts(found_path, &files[1], &found, reterr);
    }
    if (status == BASE_OK && json_array_size(expected) != json_array_size(found)) {
        status = base_fail(reterr, BASE_ERR_MISMATCH, "%zu answers, not %zu",
                           json_array_size(found), json_array_size(expected));
    }
    for (size_t i = 0; status == BASE_OK && i < json_array_size(expected); i++) {
        status = compare_one(&c, json_array_get(expected, i), json_array_get(found, i), reterr);
    }
    if (status == BASE_OK) {
        (void)printf("answers %d\nanswers_different %d\nanswers_logit_gap %.3g\n", c.answers,
                     c.different, c.gap);
    }
    json_decref(files[0]);
    json_decref(files[1]);
    measured_model_close(&c.model);
    rank_device_close(&cpu);
    return status;
}
