/* What chats have beside texts, as JSON that chat templates read (PROTO_CHAT_TOOLS and PROTO_CHAT_MESSAGE of
 * proto/request.h): tools, calls of them, and what came of these. In OpenAI's format. Pure. */
#ifndef PROTO_CHAT_JSON_H
#define PROTO_CHAT_JSON_H

#include <stdbool.h>

#include "base/status.h"

struct json_t;

/* A list of functions, each with a name of 1 to 64 letters, digits, _, - or ., and parameters that are an object, if it
 * has any. BASE_ERR_INVALID says which is wrong. */
BASE_MUST_CHECK base_status proto_chat_check_tools(const struct json_t *list, base_error *reterr);

/* The name of the tool, or of a call's; NULL: it has none. */
const char *proto_chat_tool_name(const struct json_t *tool);

/* {"type": "function"}: a tool, or a call. */
bool proto_chat_is_function(const struct json_t *value);

/* A call's arguments as an object, of one or of its text; none, or an empty text, are an object without members. The
 * caller drops it. NULL: they are something else, or there is no memory. */
struct json_t *proto_chat_arguments(const struct json_t *given);

/* Whether a message has more to say than a role and a content: calls of tools, or what came of one. */
bool proto_chat_needs_json(const struct json_t *message);

/* The message as a text, which the caller frees, with this role and content instead of its own, and each call's
 * arguments as an object. BASE_ERR_INVALID: a call is none. */
BASE_MUST_CHECK base_status proto_chat_write(const struct json_t *message, const char *role,
                                             const char *content, char **text, base_error *reterr);

/* Whether the assistant says it. role, content: as in a request's chat. */
bool proto_chat_is_answer(const char *role, const char *content);

#endif
