/* What the files of the ledger share: the handle, one operation, a chain and a reservation as read
 * from the tables. Private to ledger/. */
#ifndef BUDGET_LEDGER_CORE_H
#define BUDGET_LEDGER_CORE_H

#include "budget/ledger.h"
#include "journal.h"
#include "store.h"

struct budget_ledger {
    store_db store;
    int lock_fd;
    int checkpoint_fd;
    char dir[BASE_PATH_BYTES];
    char checkpoint_path[BASE_PATH_BYTES];
    budget_ledger_signer signer;
    budget_clock_anchor anchor;
    uint64_t sequence; /* committed */
    uint8_t head[BUDGET_DIGEST_BYTES];
    bool in_batch;
    bool lost; /* an operation of this batch failed: commit rolls back */
    budget_rule_now now;
    uint64_t batch_sequence;
    uint8_t batch_head[BUDGET_DIGEST_BYTES];
    budget_clock_anchor batch_anchor; /* to put back on rollback */
    const journal_row *again; /* an audit's scratch: the row that the next operation must make, and
                               * that is not inserted; NULL in every other ledger */
    bool made_again;          /* it made that very row */
};

enum { OP_DATA_BYTES = JOURNAL_ACTUAL_BYTES_MAX };

/* One operation in progress. row gathers what is written when it ends. */
typedef struct ledger_op {
    budget_ledger *ledger;
    store_db *store;
    const budget_caller *caller; /* NULL: the service itself, nothing remembered */
    budget_answer *answer;
    base_error *reterr;
    journal_row row;
    char label[BUDGET_LABEL_BYTES]; /* row.label and row.data may point here */
    uint8_t data[OP_DATA_BYTES];
    bool replayed; /* the answer is an earlier one: done */
} ledger_op;

/* What the operation is about, into the row. */
void op_about(ledger_op *op, int64_t reservation, int64_t account, const char *label);

/* Looks whether this request was answered before. False: the operation ends with *status, which was
 * bad before the call (the request is malformed), or is now, or the answer is the earlier one. */
bool op_begin(ledger_op *op, budget_ledger *ledger, const budget_caller *caller,
              budget_answer *answer, base_error *reterr, base_status *status);

/* Ends it with a refusal, remembered when the caller has a request id.
 * format: a message for a person. */
BASE_MUST_CHECK base_status op_refuse(ledger_op *op, budget_reason reason, const char *format, ...)
    BASE_PRINTF(3, 4);

/* Ends it with a row: op->row but for sequence, times, client, request and answer. */
BASE_MUST_CHECK base_status op_grant(ledger_op *op);

BASE_MUST_CHECK base_status op_refuse_overflow(ledger_op *op);

/* The answer says that the proof of the end was about other instances. */
void op_say_refuted(ledger_op *op);

/* Refuses an instance of the vendor of `found` that the reservation `owner` has, and names that. */
BASE_MUST_CHECK base_status op_refuse_owned(ledger_op *op, const budget_reservation *found,
                                            int64_t owner, const char *instance_id);

/* Keeps the bytes under their digest. */
BASE_MUST_CHECK base_status op_keep_evidence(ledger_op *op, const void *bytes, size_t size_bytes,
                                             uint8_t digest[BUDGET_DIGEST_BYTES]);

/* BASE_ERR_INVALID: empty, or too long; NULL is fine. */
BASE_MUST_CHECK base_status evidence_size_check(const void *evidence, size_t size_bytes,
                                                base_error *reterr);

/* Passes status on, and loses the batch unless it is BASE_OK or BASE_ERR_INVALID (nothing written
 * yet). Every operation returns through this. */
base_status op_end(ledger_op *op, base_status status);

/* The answer of the row with this sequence, as a replay. */
BASE_MUST_CHECK base_status op_replay(ledger_op *op, uint64_t sequence);

typedef struct ledger_chain {
    budget_rule_chain rule;
    int64_t ids[BUDGET_ACCOUNT_DEPTH_MAX];
    char names[BUDGET_ACCOUNT_DEPTH_MAX][BUDGET_ACCOUNT_BYTES];
} ledger_chain;

/* By name, or by id where name is NULL. BASE_ERR_NOTFOUND. */
BASE_MUST_CHECK base_status chain_load(budget_ledger *ledger, const char *name, int64_t id,
                                       ledger_chain *chain, base_error *reterr);

/* Any account of the chain is frozen: its index; -1: none. */
int chain_frozen(const ledger_chain *chain);

/* Figures of the account that binds (or of `which`) into the answer. */
void chain_answer(const ledger_chain *before, const ledger_chain *after, size_t which,
                  budget_answer *answer);

enum ledger_flag {
    FLAG_LOCAL = 1,
    FLAG_CREATED = 2,
    FLAG_EXPIRED = 4,
    FLAG_TERMINATED = 8,
    FLAG_BILLED = 16,
    FLAG_ATTESTED = 32,
    FLAG_FINAL = 64,
    FLAG_REFUTED = 128,
};

/* The current row of a statement that selects RESERVATION_COLUMNS. Its entry has what stands in the
 * row: reservation_describe sets the rest. */
void reservation_read(const store_db *store, store_sql sql, budget_reservation *reservation);

/* Runs `sql` with one text. BASE_ERR_NOTFOUND: no row. */
BASE_MUST_CHECK base_status reservation_load(budget_ledger *ledger, store_sql sql, const char *key,
                                             budget_reservation *reservation, base_error *reterr);
BASE_MUST_CHECK base_status reservation_load_id(budget_ledger *ledger, int64_t id,
                                                budget_reservation *reservation,
                                                base_error *reterr);

/* The reservation of a label, into op->row as well. False: *status says why, or there is no such
 * label and that is refused. */
bool op_load(ledger_op *op, const char *label, budget_reservation *found, base_status *status);

/* Writes `after` over `before` and the difference into the chain, and the deltas into op->row. Where a
 * sum would overflow, nothing is written and that is refused: op->answer->reason says so. */
BASE_MUST_CHECK base_status reservation_apply(ledger_op *op, const budget_reservation *before,
                                              const budget_reservation *after, bool freeze);

/* The same without a freeze, and ends the operation with its row. */
BASE_MUST_CHECK base_status reservation_change(ledger_op *op, const budget_reservation *before,
                                               const budget_reservation *after);

/* Takes down in which account of the vendor its instances are ("": not said). *placed: nobody had said it before.
 * Refused if another one is known: then op->answer->reason says so. */
BASE_MUST_CHECK base_status reservation_place(ledger_op *op, budget_reservation *reservation,
                                              const char *vendor_account, bool *placed);

/* Sets all of its entry: the account's name, the first instance, the state, money and wall times. */
BASE_MUST_CHECK base_status reservation_describe(budget_ledger *ledger,
                                                 budget_reservation *reservation,
                                                 base_error *reterr);

/* BASE_ERR_INVALID, with a message, unless the text is 1 … size_bytes - 1 printable ASCII
 * characters without quotes and backslashes. */
BASE_MUST_CHECK base_status text_check(const char *what, const char *text, size_t size_bytes,
                                       base_error *reterr);

/* Wall time of a ledger time; 0 stays 0. */
int64_t wall_of(const budget_ledger *ledger, int64_t ledger_ms);

/* A line of a bill as it was recorded before. */
typedef struct ledger_line {
    const char *vendor;   /* in: these four */
    const char *instance; /* "": the line names none */
    const char *id;       /* counts within its vendor and instance */
    int64_t reservation;  /* the run that the line is about */
    bool known;           /* out: there is one, and */
    bool elsewhere;       /* it belongs to another run, or it is uncertain which it is */
    int64_t amount;
    uint64_t sequence; /* its row */
} ledger_line;

/* actual.c: looks it up by vendor, instance and id. Within its run a line is also known where it
 * named an instance then and does not now, or the other way round. */
BASE_MUST_CHECK base_status line_find(budget_ledger *ledger, ledger_line *line, base_error *reterr);

/* actual.c: why a cost of the run, as it is with it, froze its account. above_cap: the account that
 * is above its cap by it; NULL: the run's own sum is the reason. */
void actual_frozen_message(const budget_reservation *run, const char *above_cap,
                           char message[BUDGET_ANSWER_MESSAGE_BYTES]);

/* final.c: the cost of reservation `id` is final by this bill, with a row that says so, unless the
 * rules say that it is not; nothing is written then. */
BASE_MUST_CHECK base_status reservation_finalize(budget_ledger *ledger, const budget_caller *caller,
                                                 int64_t id, const budget_rule_bill *bill,
                                                 base_error *reterr);

/* final.c: the proven end of reservation `id` was none (a bill charges for a time after it, or another
 * instance is attached), with a row that says so; nothing is written where this is known, or its cost is final. */
BASE_MUST_CHECK base_status reservation_refute(budget_ledger *ledger, const budget_caller *caller,
                                               int64_t id, base_error *reterr);

/* checkpoint.c: the file is made, synced, opened and checked against the journal; a line is appended.
 * accepted->message: what did not fit and was accepted nevertheless, or empty. */
BASE_MUST_CHECK base_status checkpoint_create(budget_ledger *ledger, base_error *reterr);
BASE_MUST_CHECK base_status checkpoint_sync(const budget_ledger *ledger, base_error *reterr);
BASE_MUST_CHECK base_status checkpoint_open(budget_ledger *ledger,
                                            const budget_ledger_options *options,
                                            base_error *accepted, base_error *reterr);
BASE_MUST_CHECK base_status checkpoint_append(budget_ledger *ledger, uint64_t sequence,
                                              const uint8_t head[BUDGET_DIGEST_BYTES],
                                              base_error *reterr);

#endif
