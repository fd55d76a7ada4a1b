/* The whole service, as its files share it. Private to the server; one thread. */
#ifndef BUDGET_SERVICE_H
#define BUDGET_SERVICE_H

#include <budget.pb-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "admission.h"
#include "base/limits.h"
#include "base/status.h"
#include "budget/audit.h"
#include "budget/clock.h"
#include "budget/keyring.h"
#include "budget/ledger.h"
#include "budget/server.h"
#include "connections.h"
#include "hook.h"
#include "item.h"
#include "proto/arena.h"
#include "proto/key.h"
#include "proto/zap.h"
#include "unheard.h"

typedef enum service_endpoint {
    SERVICE_ENDPOINT_ASK,    /* clients on the list */
    SERVICE_ENDPOINT_REDEEM, /* anybody with a token */
    SERVICE_ENDPOINTS,
} service_endpoint;

/* Which keyring.json has been read. */
typedef struct service_keyring_file {
    bool known;
    dev_t device;
    ino_t inode;
    struct timespec changed;
} service_keyring_file;

typedef struct budget_service {
    const budget_serve_options *options;
    char dir[BASE_PATH_BYTES];
    int lock_fd; /* of DIR/run/lock: one service a directory */
    int signal_fd;
    bool ending;

    proto_keypair *curve; /* locked memory */
    void *context;
    proto_zap *zap;
    service_admission admission;
    void *sockets[SERVICE_ENDPOINTS];
    service_connections connections[SERVICE_ENDPOINTS];
    char endpoints[SERVICE_ENDPOINTS][BASE_PATH_BYTES];
    size_t memory_base_bytes; /* what was in use when the service got ready */
    int64_t flood_check_ns;

    budget_ledger *ledger;
    budget_clock clock; /* of the batch */
    budget_keyring keyring;
    service_keyring_file keyring_file;
    const unsigned char *secret; /* the signer's, 64 bytes */
    char kid[BUDGET_KID_BYTES];
    struct budget_policy *policy;

    proto_arena arena;
    uint8_t *scratch; /* (BUDGET_MESSAGE_BYTES_MAX) */
    service_item *items;
    int item_count;
    bool clients_changed; /* in this batch: the admission list follows the commit */

    struct service_audit *audit;                  /* the one that runs, and its waiters */
    char finding[BUDGET_AUDIT_FINDING_BYTES];     /* of the last audit; empty: it was good */
    char audit_digest[BUDGET_AUDIT_DIGEST_BYTES]; /* of all its findings */
    int64_t reaper_due_ns;
    int64_t alarms_due_ns;            /* when alarms of passed deadlines are repeated */
    budget_ledger_moment overdue;     /* runs up to here have had that alarm, */
    budget_ledger_moment ending_soon; /* and those their reminder */
    bool clock_is_wrong;              /* there was an alarm of it */
    int64_t failure_due_ns;           /* when the failure below is logged again */
    char failure_logged[BASE_ERROR_MESSAGE_BYTES];
    struct service_usage *usage; /* accounts near their caps */
    service_hook hook;
    service_unheard unheard;
} budget_service;

/* What a handler gets: a question that has passed the checks of its sender. */
typedef struct service_question {
    const Ringfence__Budget__Request *request;
    const budget_ledger_client *client; /* NULL: at the redeem endpoint */
    const uint8_t *key;                 /* CURVE, of the connection */
    budget_caller caller;
} service_question;

/* Puts the answer into the item. BASE_ERR_INVALID: the question is malformed; anything else ends
 * the whole batch. */
typedef base_status service_handler(budget_service *service, const service_question *question,
                                    service_item *item, base_error *reterr);

/* ---- batch.c: the loop's work */

/* Takes what waits (up to SERVICE_BATCH_MAX), applies it, commits, signs, answers. *count is how
 * many there were. A failure ends the service. */
BASE_MUST_CHECK base_status service_batch(budget_service *service, int *count, base_error *reterr);

/* Sends an item's answer: its end is put on, then it goes. A client that has left is no error. */
BASE_MUST_CHECK base_status service_reply(budget_service *service, service_item *item,
                                          base_error *reterr);

/* ---- access.c: which client may ask what */

/* Checks sender, role and what the client remembers, then has it handled. The item always has an
 * answer when this returns BASE_OK. */
BASE_MUST_CHECK base_status service_access_check(budget_service *service, const char *user_id,
                                                 const Ringfence__Budget__Request *request,
                                                 service_item *item, base_error *reterr);

/* ---- handlers, by file */

service_handler service_authorize; /* handle_authorize.c */
service_handler service_attach;    /* handle_facts.c */
service_handler service_terminated;
service_handler service_void;
service_handler service_record_actual;
service_handler service_redeem;
service_handler service_remaining; /* handle_read.c */
service_handler service_total_spent;
service_handler service_status;
service_handler service_list;
service_handler service_account_list;
service_handler service_export; /* handle_export.c, reconcile.c, audit_run.c */
service_handler service_reconcile;
service_handler service_audit_begin;
service_handler service_account_create; /* handle_admin.c */
service_handler service_account_set_cap;
service_handler service_account_acknowledge;
service_handler service_client_add;
service_handler service_client_revoke;
service_handler service_client_list;
service_handler service_clock_repair;

/* ---- keyring.c */

/* The service's key is one that signs, by the keyring.json that is there now; the service verifies
 * with that one from now on. BASE_ERR_AUTH: it must not sign. Reads a small file where it has
 * changed. */
BASE_MUST_CHECK base_status service_keyring_check(budget_service *service, base_error *reterr);

/* ---- sign.c: after the commit */

/* Signs what the item waits for. A key that is gone is a refusal, not a failure. */
BASE_MUST_CHECK base_status service_sign(budget_service *service, service_item *item,
                                         base_error *reterr);

/* ---- sockets.c */

/* Admission first, then both sockets; endpoints are filled in. */
BASE_MUST_CHECK base_status service_sockets_open(budget_service *service, base_error *reterr);
void service_sockets_close(budget_service *service);

/* The list of admitted keys, from the ledger. */
BASE_MUST_CHECK base_status service_admission_load(budget_service *service, base_error *reterr);

/* Closes connections when memory has grown beyond its limit. */
void service_flood_check(budget_service *service);

/* ---- reaper.c */

/* Deadlines that have passed: to the ledger, to the log and the hook, and to those again every
 * SERVICE_ALARM_AGAIN_S. Those that come soon: to the log and the hook, once. */
BASE_MUST_CHECK base_status service_reap(budget_service *service, base_error *reterr);

/* ---- alarm.c */

/* Logs the line and hands the object to the hook, with the time. Takes the object (NULL: there was no
 * memory for it). */
struct json_t;
void service_alarm(budget_service *service, struct json_t *alarm, const char *format, ...)
    BASE_PRINTF(3, 4);

/* The run has passed its deadline, or will soon. */
BASE_MUST_CHECK base_status service_alarm_deadline(budget_service *service,
                                                   const budget_reservation *run, bool passed,
                                                   base_error *reterr);

/* Takes what the hook has said of its alarms. */
void service_alarm_look(budget_service *service);

/* What is wrong with the wall clock; empty: nothing. */
BASE_MUST_CHECK base_status service_clock_text(budget_service *service,
                                               char text[BUDGET_ANSWER_MESSAGE_BYTES],
                                               base_error *reterr);

/* Raises an alarm of it, once until it is right again. */
BASE_MUST_CHECK base_status service_clock_look(budget_service *service, base_error *reterr);

/* Logs what may fail again and again, the same at most every SERVICE_FAILURE_AGAIN_S. */
void service_log_failure(budget_service *service, const char *message);

/* ---- usage.c */

/* Raises alarms of accounts that have passed 80 % of their cap, or the cap, or that have been frozen
 * since the last look. */
BASE_MUST_CHECK base_status service_usage_look(budget_service *service, base_error *reterr);
void service_usage_free(struct service_usage *usage); /* NULL is fine */

/* ---- audit_run.c */

bool service_audit_runs(const budget_service *service);

/* A slice of the audit that runs; answers when it is done. */
BASE_MUST_CHECK base_status service_audit_slice(budget_service *service, base_error *reterr);
void service_audit_free(budget_service *service);

/* The whole ledger before anything is granted.
 * BASE_ERR_MISMATCH: it is bad, and nobody accepts it. */
BASE_MUST_CHECK base_status service_audit_first(budget_service *service, base_error *reterr);

/* The last audit found what no admin has accepted: nothing is granted. */
bool service_halted(const budget_service *service);

/* ---- init.c */

/* DIR/service.curve, into locked memory. */
BASE_MUST_CHECK base_status service_curve_read(const char *dir, proto_keypair **pair,
                                               base_error *reterr);

#endif
