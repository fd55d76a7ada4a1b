/* Tools that a chat's model may call: what a request says of them, and the calls in an answer. Pure; the caller locks.
 *
 * Models write calls in their answer, as they were trained to: {"name": ..., "arguments": {...}}, between <tool_call> and
 * </tool_call> (Qwen, Hermes, SmolLM3), or with marks that print nothing, or none (Llama 3, where the arguments are
 * called parameters; Mistral and Phi-4-mini, in a list). */
#ifndef LAUNCH_TOOLS_H
#define LAUNCH_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct json_t;

#define LAUNCH_TOOLS_KEY       "tools"
#define LAUNCH_TOOL_CHOICE_KEY "tool_choice"

typedef struct launch_tools {
    struct json_t *list;   /* those that the model is told of; NULL: it may call none */
    struct json_t *schema; /* of a call, where the answer must be one; NULL: it need not */
} launch_tools;

/* Reads "tools" and "tool_choice"; NULL: there is none. tools: all 0. BASE_ERR_INVALID says what is wrong, and in
 * *field with which. */
BASE_MUST_CHECK base_status launch_tools_read(const struct json_t *list,
                                              const struct json_t *choice, launch_tools *tools,
                                              const char **field, base_error *reterr);
void launch_tools_fini(launch_tools *tools);

/* Of what has come of an answer, the bytes that can be no call, whatever follows. worded: text was sent before. */
size_t launch_tools_plain(const char *text, size_t bytes, bool worded);

/* The calls with which an answer ends, as a list of OpenAI's; NULL: there are none, or what follows the first is
 * something else, or calls a tool that is not in the list. *content_bytes: of the text before them. id: of the choice. */
struct json_t *launch_tools_calls(const struct json_t *list, const char *text, size_t bytes,
                                  bool worded, uint64_t id, size_t *content_bytes);

#endif
