/* lesson_notes of an inference run. */
#ifndef LAUNCH_INFERENCE_LESSON_H
#define LAUNCH_INFERENCE_LESSON_H

#include "record/inference_figures.h"
#include "record/text.h"

/* Why the model that is cut between ranks is faster or slower here, and what that says of larger
 * ones: a paragraph from the figures alone. suspect: why its speed-up cannot be what it seems; NULL:
 * it can. */
void launch_inference_lesson(const launch_inference_figures *figures, const char *suspect,
                             launch_text *text);

#endif
