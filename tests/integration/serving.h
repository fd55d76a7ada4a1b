/* A server over HTTP, and its clients: curl, and sockets by hand. */
#ifndef TEST_SERVING_H
#define TEST_SERVING_H

#include "inference.h"

enum { SERVING_REPLY_BYTES = 1024 * 1024, SERVING_COMMAND_BYTES = 4096, SERVING_WAIT_S = 60 };

#define SERVING_LONG                                                                               \
    "{\"prompt\":\"he goed\",\"max_tokens\":16000,\"ignore_eos\":true,\"temperature\":1}"

extern test_program serving_program;
extern training_run serving_wide; /* a model with a context that takes a while to fill */
extern char serving_url[256];
extern char serving_reply[SERVING_REPLY_BYTES]; /* what came last */

/* Group setup: trains both models in test_shared_directory. */
int serving_setup(void **state);

/* Starts a server, and waits until it answers. */
void serving_start(const training_run *model, const char *ranks, const char *const *flags);

int serving_end(int signal_number);

/* Asks by curl. serving_reply has the body; returns the HTTP status. */
int serving_ask(const char *path, const char *arguments);

/* The text of a completion that must be whole; the caller frees it. */
char *serving_complete(const char *body);

/* A text as a record has it: control characters are escaped there, and not for HTTP clients. */
void serving_escape(const char *text, char *escaped, size_t capacity);

/* `small`: its segments and buffers are, so that a server soon cannot send any more to a client that
 * does not read. */
int serving_connect(bool small);

/* Sends a request by hand. Returns the connection. */
int serving_send_with(const char *body, bool small);

int serving_send(const char *body);

/* All that comes until the server closes the connection, in serving_reply. */
void serving_read_all(int fd);

/* Waits until a metric has the value. */
void serving_wait_metric(const char *line);

#endif
