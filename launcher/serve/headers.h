/* What the headers of a request must be, before anything is done for it. Called by routes.c. Pure. */
#ifndef LAUNCH_SERVE_HEADERS_H
#define LAUNCH_SERVE_HEADERS_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/limits.h"

struct MHD_Connection;

/* Why the headers are answered with a 400; NULL: they are not. */
const char *launch_headers_wrong(struct MHD_Connection *connection, const char *version);

/* Whether the body is compressed, or encoded in another way. */
bool launch_headers_encode(struct MHD_Connection *connection);

/* Whether the Host that the client has asked for is an address, or localhost. A page of another site can ask
 * under that site's name, when its DNS says that this is the site's address (DNS rebinding). True without a Host:
 * no browser leaves it out. */
bool launch_headers_ask_by_address(struct MHD_Connection *connection);

/* Whether the client has sent the key of this hash. Compares digests, so that the time says nothing
 * of the key or its length. */
bool launch_headers_have_key(struct MHD_Connection *connection,
                             const uint8_t key_hash[LAUNCH_SERVE_HASH_BYTES]);

#endif
