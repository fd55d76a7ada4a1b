/* What an inference run shows, in words: lesson_notes, and lines for the terminal. */
#ifndef LAUNCH_INFERENCE_LESSON_H
#define LAUNCH_INFERENCE_LESSON_H

#include "base/buffer.h"
#include "record/inference_figures.h"
#include "record/run_info.h"

/* Writes a paragraph from the figures: why the model on several ranks is faster or slower here, and
 * what that means for larger models. suspect: why its speed-up is not credible; NULL: it is. info:
 * of the machine, which may have been busy. */
void launch_inference_lesson(const launch_inference_figures *figures, const char *suspect,
                             const launch_run_info *info, base_buffer *text);

/* "5 all-reduces a step, for 10 texts". */
void launch_inference_put_reduces(const launch_inference_figures *figures, base_buffer *text);

/* What the comparison and the curve say, for the terminal: a line for each that ran, or why it did not.
 * results: results.json. */
void launch_inference_lines(const launch_inference_figures *figures, const json_t *results,
                            base_buffer *lines);

#endif
