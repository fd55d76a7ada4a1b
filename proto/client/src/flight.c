/* Sends the flight record to the launcher. Called by client.c when the rank fails, and by
 * thread.c. */
#include <control.pb-c.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "client_impl.h"

static void send_pieces(proto_client *client, uint8_t *text, size_t text_bytes,
                        proto_send_piece send)
{
    size_t sent = 0;
    do {
        const size_t left = text_bytes - sent;
        const size_t bytes =
            left < PROTO_FLIGHT_PIECE_BYTES_MAX ? left : PROTO_FLIGHT_PIECE_BYTES_MAX;
        Ringfence__Control__Flight flight = RINGFENCE__CONTROL__FLIGHT__INIT;
        flight.piece.data = text + sent;
        flight.piece.len = bytes;
        flight.last = sent + bytes == text_bytes;
        send(client, &flight.base);
        sent += bytes;
    } while (sent < text_bytes);
}

void proto_client_send_flight(proto_client *client, const char *reason, proto_send_piece send)
{
    void *text = NULL;
    size_t text_bytes = 0;
    base_error ignored;
    const int fd = memfd_create("flight", MFD_CLOEXEC);
    bool there = false;
    if (fd < 0) {
        return; /* the record is lost, but the job goes on */
    }
    /* held during the call, because the rank may want to remove the callback */
    (void)pthread_mutex_lock(&client->lock);
    if (client->on_dump != NULL) {
        client->on_dump(client->on_dump_user, fd, reason);
        there = true;
    }
    (void)pthread_mutex_unlock(&client->lock);
    if (there && lseek(fd, 0, SEEK_SET) == 0 &&
        base_fd_read(fd, "flight", PROTO_FLIGHT_BYTES_MAX, &text, &text_bytes, &ignored) ==
            BASE_OK &&
        text_bytes > 0) {
        send_pieces(client, text, text_bytes, send);
    }
    free(text);
    (void)close(fd);
}
