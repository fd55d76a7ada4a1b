/* A relay between two ends of a TCP connection, in a thread of its own: what comes from one side
 * goes to a tap, and what the tap emits goes to the other side, after a delay if there is one. Ends
 * when either side does, or when told. */
#ifndef TEST_RELAY_H
#define TEST_RELAY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct test_relay test_relay;

/* `side` is where the bytes come from: 0 who connected to the relay, 1 who was connected to. */
typedef void (*test_relay_tap)(test_relay *relay, void *user, int side, const uint8_t *bytes,
                               size_t size_bytes);

/* Starts a relay to an address; `at` becomes where to connect to instead. tap NULL: all goes on as
 * it is. Fails the test if there is no socket or no thread. */
test_relay *test_relay_start(const struct sockaddr_in *to, struct sockaddr_in *at, int64_t delay_ns,
                             test_relay_tap tap, void *user);

/* For taps: sends bytes on to the side other than `side`. */
void test_relay_emit(test_relay *relay, int side, const void *bytes, size_t size_bytes);

/* For taps: lets nothing through any more; the connections stay, as on a cable that is cut. */
void test_relay_cut(test_relay *relay);

/* Ends the relay and closes its sockets. */
void test_relay_stop(test_relay *relay);

#endif
