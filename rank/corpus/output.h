/* The corpus on disk: train.jsonl, heldout.jsonl and the tokenizer learnt from the former.
 *
 * A line is {"text","wrong","right","rule","verb","frame"}, all strings. */
#ifndef CORPUS_OUTPUT_H
#define CORPUS_OUTPUT_H

#include "base/status.h"
#include "generate.h"

/* Writes the three files into directory, which is made where it is missing. */
BASE_MUST_CHECK base_status corpus_write(const char *directory, const corpus_lines *lines,
                                         base_error *reterr);

#endif
