/* Reads the headers that say whose server is asked, and where a body ends. Called by routes.c. */
#include "serve/headers.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct counting {
    const char *name;
    int count;
} counting;

static enum MHD_Result count_named(void *user, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    counting *of = user;
    (void)kind;
    (void)value;
    of->count += strcasecmp(name, of->name) == 0 ? 1 : 0;
    return MHD_YES;
}

static int count(struct MHD_Connection *connection, const char *name)
{
    counting of = {.name = name};
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, count_named, &of);
    return of.count;
}

const char *launch_headers_wrong(struct MHD_Connection *connection, const char *version)
{
    /* RFC 9112, section 6.3. A proxy may believe another one than libmicrohttpd, which takes the first, and then
     * one client's body is the next one's request. */
    if (count(connection, MHD_HTTP_HEADER_CONTENT_LENGTH) +
            count(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING) >
        1) {
        return "the headers say the body's length twice";
    }
    /* section 3.2 */
    const int hosts = count(connection, MHD_HTTP_HEADER_HOST);
    const bool optional = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    return hosts == 1 || (hosts == 0 && optional) ? NULL
                                                  : "the header Host is missing, or there are two";
}

bool launch_headers_encode(struct MHD_Connection *connection)
{
    const char *encoding =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_ENCODING);
    return encoding != NULL && encoding[0] != '\0' && strcasecmp(encoding, "identity") != 0;
}

bool launch_headers_ask_by_address(struct MHD_Connection *connection)
{
    char name[INET6_ADDRSTRLEN];
    uint8_t address[sizeof(struct in6_addr)];
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const bool brackets = host != NULL && host[0] == '[';
    const char *begin = brackets ? host + 1 : host;
    const size_t bytes = host != NULL ? strcspn(begin, brackets ? "]" : ":") : 0;
    if (host == NULL || bytes >= sizeof name) {
        return host == NULL;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)bytes, begin);
    return strcasecmp(name, "localhost") == 0 ||
           inet_pton(brackets ? AF_INET6 : AF_INET, name, address) == 1;
}

bool launch_headers_have_key(struct MHD_Connection *connection,
                             const uint8_t key_hash[LAUNCH_SERVE_HASH_BYTES])
{
    static const char scheme[] = "Bearer ";
    uint8_t hash[LAUNCH_SERVE_HASH_BYTES];
    const char *given =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (given == NULL || strncasecmp(given, scheme, sizeof scheme - 1) != 0) {
        return false;
    }
    given += sizeof scheme - 1;
    given += strspn(given, " ");
    (void)crypto_generichash(hash, sizeof hash, (const uint8_t *)given, strcspn(given, " \t"), NULL,
                             0);
    return sodium_memcmp(hash, key_hash, sizeof hash) == 0;
}
