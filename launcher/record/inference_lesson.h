/* lesson_notes of an inference run. */
#ifndef LAUNCH_INFERENCE_LESSON_H
#define LAUNCH_INFERENCE_LESSON_H

#include "record/inference_figures.h"
#include "record/run_info.h"
#include "record/text.h"

/* Writes a paragraph from the figures: why the model on several ranks is faster or slower here, and
 * what that means for larger models. suspect: why its speed-up is not credible; NULL: it is. info:
 * of the machine, which may have been busy. */
void launch_inference_lesson(const launch_inference_figures *figures, const char *suspect,
                             const launch_run_info *info, launch_text *text);

#endif
