/* Inference jobs on a small model that is trained for a few steps. Its logits are close to each
 * other, so what is drawn differs from what is most probable. */
#ifndef TEST_INFERENCE_H
#define TEST_INFERENCE_H

#include <jansson.h>

#include "training.h"

#define PROMPTS "--prompt", "he goed to school", "--prompt", "i has eat", "--prompt", "i has eat"
#define DRAWN   PROMPTS, "--temperature", "0.9", "--top-p", "0.8"

extern training_run inference_model;

/* Group setup: trains the model in test_shared_directory. */
int inference_make_model(void **state);

/* Runs the launcher on the model, with its record in test_shared_directory/NAME, and returns its exit
 * code. program has its output. */
int inference_run(test_program *program, const char *mode, const char *ranks, const char *name,
                  const char *const *flags);

/* A file of JSON in NAME, results.json there, and the lines of timings.jsonl. The caller releases it. */
json_t *inference_file(const char *name, const char *file);
json_t *inference_results(const char *name);
json_t *inference_timings(const char *name);

/* The results of a tp-cpu run into NAME, which must end well; the caller releases them. */
json_t *inference_measure(const char *ranks, const char *name, const char *const *flags);

/* The number under the key. Fails the test if there is none. */
double inference_real(const json_t *object, const char *key);

/* The tokens of all prompts of a tp-cpu run into NAME, as one text, which the caller frees. */
char *inference_tokens(const char *ranks, const char *name, const char *const *flags);

#endif
