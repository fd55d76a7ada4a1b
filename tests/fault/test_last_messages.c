/* What the ranks' last messages mean. One may come while the launcher takes the event that its connection has ended,
 * and counts before the event. The bus and the screen are this test. */
#include <control.pb-c.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "job/session.h"
#include "support.h"

enum { RANKS = 2 };

static Ringfence__Control__Envelope messages[RANKS]; /* of each rank in turn */
static int came;                                     /* messages that can be received */
static int handled;
static bool ends; /* rank 0's connection, once; its message comes then */
static char said[512];

static launch_job_options options;
static launch_session session;
static launch_job_result result;
static launch_rank ranks[RANKS];
static launch_rank_info infos[RANKS];

base_status __wrap_proto_bus_recv(proto_bus *bus, int *rank, Ringfence__Control__Envelope **got,
                                  base_error *reterr);
bool __wrap_proto_bus_next_event(proto_bus *bus, proto_bus_event *event);
base_status __wrap_proto_bus_send(proto_bus *bus, int rank, ProtobufCMessage *body,
                                  base_error *reterr);
void __wrap_launch_screen_say(launch_screen *screen, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

base_status __wrap_proto_bus_recv(proto_bus *bus, int *rank, Ringfence__Control__Envelope **got,
                                  base_error *reterr)
{
    (void)bus;
    (void)reterr;
    *rank = handled < came ? handled : PROTO_NO_RANK;
    *got = handled < came ? &messages[handled] : NULL;
    handled += *got != NULL;
    return BASE_OK;
}

bool __wrap_proto_bus_next_event(proto_bus *bus, proto_bus_event *event)
{
    (void)bus;
    *event = (proto_bus_event){.kind = PROTO_BUS_DISCONNECTED, .rank = 0};
    const bool is_now = ends;
    came += is_now;
    ends = false;
    return is_now;
}

base_status __wrap_proto_bus_send(proto_bus *bus, int rank, ProtobufCMessage *body,
                                  base_error *reterr)
{
    (void)bus;
    (void)rank;
    (void)body;
    (void)reterr;
    return BASE_OK;
}

void __wrap_launch_screen_say(launch_screen *screen, const char *format, ...)
{
    va_list args;
    (void)screen;
    va_start(args, format);
    (void)vsnprintf(said, sizeof said, format, args);
    va_end(args);
}

static int begin(void **state)
{
    (void)state;
    came = handled = 0;
    ends = false;
    said[0] = '\0';
    result = (launch_job_result){.ranks = infos};
    session = (launch_session){
        .options = &options, .result = &result, .ranks = ranks, .world_size = RANKS};
    for (int rank = 0; rank < RANKS; rank++) {
        ranks[rank] = (launch_rank){.joined = true, .reported_exit_code = -1, .unreached = -1};
    }
    return 0;
}

static void finish(Ringfence__Control__Finished *finished, int rank, bool paused)
{
    ringfence__control__finished__init(finished);
    ringfence__control__envelope__init(&messages[rank]);
    finished->paused = paused;
    messages[rank].body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_FINISHED;
    messages[rank].finished = finished;
    came++;
}

static void a_message_counts_before_the_end_of_its_connection(void **state)
{
    static char disk[] = "the disk is full";
    static Ringfence__Control__Failed failed = RINGFENCE__CONTROL__FAILED__INIT;
    (void)state;
    failed.exit_code = 5;
    failed.message = disk;
    ringfence__control__envelope__init(&messages[0]);
    messages[0].body_case = RINGFENCE__CONTROL__ENVELOPE__BODY_FAILED;
    messages[0].failed = &failed;
    ends = true;
    launch_messages_drain(&session);
    assert_int_equal(handled, 1);
    assert_int_equal(session.cause.blame, LAUNCH_BLAME_CAUSE);
    assert_int_equal(session.cause.exit_status, 5);
    assert_non_null(strstr(session.cause.error.message, "the disk is full"));
}

/* Some would have saved their states, and others not. */
static void ranks_that_disagree_on_a_planned_end_are_named(void **state)
{
    Ringfence__Control__Finished finished[RANKS];
    session.asked_to_pause = true;
    finish(&finished[0], 0, true);
    finish(&finished[1], 1, false);
    launch_messages_drain(&session);
    assert_int_equal(session.cause.blame, LAUNCH_BLAME_CAUSE);
    assert_non_null(strstr(session.cause.error.message,
                           ": ends the training, and rank 0 does not; please report it"));
    (void)begin(state);
    session.asked_to_pause = true;
    finish(&finished[0], 0, true);
    finish(&finished[1], 1, true);
    launch_messages_drain(&session);
    assert_int_equal(session.cause.blame, 0);
    assert_true(result.paused);
}

/* The ranks have agreed on the planned end in the moment before. */
static void a_user_is_told_if_nothing_but_the_checkpoint_is_saved(void **state)
{
    base_error error;
    (void)state;
    result.paused = true;
    assert_int_equal(launch_result_fill(&session, &error), BASE_OK);
    assert_string_equal(said, "");
    session.stop_signal = 2;
    assert_int_equal(launch_result_fill(&session, &error), BASE_OK);
    assert_non_null(strstr(said, "had ended at the checkpoint of step "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_message_counts_before_the_end_of_its_connection, begin),
        cmocka_unit_test_setup(ranks_that_disagree_on_a_planned_end_are_named, begin),
        cmocka_unit_test_setup(a_user_is_told_if_nothing_but_the_checkpoint_is_saved, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
