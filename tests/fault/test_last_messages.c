/* A rank's last message may come while the launcher takes the event that its connection has ended.
 * It counts before the event. The bus is this test. */
#include <control.pb-c.h>
#include <string.h>

#include "job/session.h"
#include "support.h"

static int taken;   /* events */
static int handled; /* messages */

base_status __wrap_proto_bus_recv(proto_bus *bus, int *rank, Ringfence__Control__Envelope **got,
                                  base_error *reterr);
bool __wrap_proto_bus_next_event(proto_bus *bus, proto_bus_event *event);

/* Nothing, until the event was taken; then one message. */
base_status __wrap_proto_bus_recv(proto_bus *bus, int *rank, Ringfence__Control__Envelope **got,
                                  base_error *reterr)
{
    static char disk[] = "the disk is full";
    static Ringfence__Control__Failed failed = RINGFENCE__CONTROL__FAILED__INIT;
    static Ringfence__Control__Envelope envelope = RINGFENCE__CONTROL__ENVELOPE__INIT;
    (void)bus;
    (void)reterr;
    failed.exit_code = 5;
    failed.message = disk;
    envelope.body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_FAILED;
    envelope.failed = &failed;
    *rank = taken > handled ? 0 : PROTO_NO_RANK;
    *got = taken > handled ? &envelope : NULL;
    handled += *got != NULL;
    return BASE_OK;
}

bool __wrap_proto_bus_next_event(proto_bus *bus, proto_bus_event *event)
{
    (void)bus;
    *event = (proto_bus_event){.kind = PROTO_BUS_DISCONNECTED, .rank = 0};
    return taken++ == 0;
}

static void a_message_counts_before_the_end_of_its_connection(void **state)
{
    (void)state;
    static launch_job_options options;
    static launch_session session;
    static launch_job_result result;
    launch_rank rank = {.joined = true, .reported_exit_code = -1};
    session.options = &options;
    session.result = &result;
    session.ranks = &rank;
    session.world_size = 1;
    launch_messages_drain(&session);
    assert_int_equal(handled, 1);
    assert_int_equal(session.cause.blame, LAUNCH_BLAME_CAUSE);
    assert_int_equal(session.cause.exit_status, 5);
    assert_non_null(strstr(session.cause.error.message, "the disk is full"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_counts_before_the_end_of_its_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
