/* Opens, creates and closes a ledger, and runs its batches: begin, commit, rollback, ledger time.
 * Called by server/, by the offline audit and by benchmarks. */
#include "budget/ledger.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/lock.h"
#include "budget/token.h"
#include "failpoint.h"
#include "ledger_core.h"
#include "rules/mutation.h"

static base_status lock_directory(budget_ledger *ledger, base_error *reterr)
{
    char path[BASE_PATH_BYTES + 16];
    (void)snprintf(path, sizeof path, "%s/ledger.lock", ledger->dir);
    const base_status status = base_lock_file(path, &ledger->lock_fd, reterr);
    return status == BASE_ERR_BUSY
               ? base_fail(reterr, status, "%s: another service has this ledger open", ledger->dir)
               : status;
}

/* The line of ledger time, as GENESIS and BOOT rows keep it: at at_ms, CLOCK_BOOTTIME stood at so
 * much, of that boot. */
static void note_boot(ledger_op *op)
{
    const budget_clock *clock = &op->ledger->anchor.clock;
    base_writer writer = base_writer_make(op->data, sizeof op->data);
    base_write_u64(&writer, (uint64_t)clock->boot_ms);
    base_write_bytes(&writer, clock->boot_id, sizeof clock->boot_id);
    op->row.data = op->data;
    op->row.data_bytes = writer.offset_bytes;
}

static base_status load_boot(budget_ledger *ledger, base_error *reterr)
{
    journal_row row;
    store_db *store = &ledger->store;
    budget_clock_anchor *anchor = &ledger->anchor;
    base_status status = store_query(store, reterr, SQL_JOURNAL_BOOT, "");
    bool there = store_next(store, SQL_JOURNAL_BOOT, &status, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (there && journal_read(store, SQL_JOURNAL_BOOT, &row)) {
        base_reader reader = base_reader_make(row.data, row.data_bytes);
        anchor->ledger_ms = row.at_ms;
        anchor->clock.boot_ms = (int64_t)base_read_u64(&reader);
        const void *boot_id = base_read_bytes(&reader, sizeof anchor->clock.boot_id);
        there = boot_id != NULL;
        if (there) {
            memcpy(anchor->clock.boot_id, boot_id, sizeof anchor->clock.boot_id - 1);
        }
    }
    store_done(store, SQL_JOURNAL_BOOT);
    return there ? BASE_OK
                 : base_fail(reterr, BASE_ERR_INVALID, "%s does not say when it was begun",
                             store->path);
}

/* The newest row gives head and sequence, the offset, and how far ledger time had come. */
static base_status load_state(budget_ledger *ledger, base_error *reterr)
{
    journal_row last;
    store_db *store = &ledger->store;
    budget_clock_anchor *anchor = &ledger->anchor;
    base_status status = load_boot(ledger, reterr);
    status = status == BASE_OK ? store_query(store, reterr, SQL_JOURNAL_LAST, "") : status;
    const bool row = store_next(store, SQL_JOURNAL_LAST, &status, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (!row || !journal_read(store, SQL_JOURNAL_LAST, &last)) {
        store_done(store, SQL_JOURNAL_LAST);
        return base_fail(reterr, BASE_ERR_INVALID,
                         row ? "%s: its last row is malformed" : "%s: its journal is empty",
                         store->path);
    }
    ledger->sequence = last.sequence;
    memcpy(ledger->head, last.hash, sizeof ledger->head);
    anchor->offset_ms = last.offset_ms;
    if (last.at_ms > anchor->ledger_ms) {
        /* The row is newer than the boot's: on that boot's own line, its moment is known. */
        anchor->clock.boot_ms += last.at_ms - anchor->ledger_ms;
        anchor->ledger_ms = last.at_ms;
    }
    store_done(store, SQL_JOURNAL_LAST);
    return BASE_OK;
}

/* A row that the ledger itself makes. */
static base_status note(budget_ledger *ledger, budget_kind kind, const char *text,
                        base_error *reterr)
{
    budget_answer answer;
    ledger_op op;
    base_status status = BASE_OK;
    const bool begun = op_begin(&op, ledger, NULL, &answer, reterr, &status);
    op.row.kind = kind;
    op.row.text = text;
    if (kind == BUDGET_KIND_GENESIS || kind == BUDGET_KIND_BOOT) {
        note_boot(&op);
    }
    return op_end(&op, begun ? op_grant(&op) : status);
}

base_status budget_ledger_accept_audit(budget_ledger *ledger, const char *finding,
                                       base_error *reterr)
{
    return note(ledger, BUDGET_KIND_AUDIT_ACCEPTED, finding, reterr);
}

static budget_ledger *make(const budget_ledger_options *options, base_error *reterr)
{
    budget_ledger *made = calloc(1, sizeof *made);
    if (made == NULL) {
        (void)base_fail(reterr, BASE_ERR_MEMORY, "no memory for the ledger");
        return NULL;
    }
    made->lock_fd = -1;
    made->checkpoint_fd = -1;
    made->signer = options->signer;
    (void)snprintf(made->dir, sizeof made->dir, "%s", options->dir);
    if (options->checkpoint_path != NULL) {
        (void)snprintf(made->checkpoint_path, sizeof made->checkpoint_path, "%s",
                       options->checkpoint_path);
    } else {
        (void)snprintf(made->checkpoint_path, sizeof made->checkpoint_path, "%.*s/checkpoints",
                       BASE_PATH_BYTES - 16, options->dir);
    }
    return made;
}

static base_status open_store(budget_ledger *ledger, const budget_ledger_options *options,
                              bool create, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    if (strlen(options->dir) > BASE_PATH_BYTES - 32) {
        return base_fail(reterr, BASE_ERR_INVALID, "the directory's name is too long");
    }
    base_status status = budget_crypto_init(reterr);
    if (status == BASE_OK && options->vfs == NULL) {
        status = lock_directory(ledger, reterr);
    }
    (void)snprintf(path, sizeof path, "%.*s/ledger.db", BASE_PATH_BYTES - 16, options->dir);
    return status == BASE_OK ? store_open(&ledger->store, path, options->vfs, create, reterr)
                             : status;
}

base_status budget_ledger_create(const budget_ledger_options *options, base_error *reterr)
{
    budget_ledger *ledger = make(options, reterr);
    if (ledger == NULL) {
        return BASE_ERR_MEMORY;
    }
    base_status status = open_store(ledger, options, true, reterr);
    if (status == BASE_OK) {
        ledger->anchor =
            (budget_clock_anchor){.ledger_ms = options->clock.wall_ms, .clock = options->clock};
        status = budget_ledger_begin(ledger, &options->clock, reterr);
    }
    status = status == BASE_OK ? note(ledger, BUDGET_KIND_GENESIS, NULL, reterr) : status;
    status = status == BASE_OK ? checkpoint_create(ledger, reterr) : status;
    status = status == BASE_OK ? budget_ledger_commit(ledger, reterr) : status;
    status = status == BASE_OK ? checkpoint_sync(ledger, reterr) : status;
    budget_ledger_close(ledger);
    return status;
}

/* The first start after a boot is noted in the journal, and a checkpoint that an admin accepted. */
static base_status start(budget_ledger *ledger, const budget_ledger_options *options,
                         const char *accepted, base_error *reterr)
{
    const bool booted = strcmp(ledger->anchor.clock.boot_id, options->clock.boot_id) != 0;
    base_status status = budget_ledger_begin(ledger, &options->clock, reterr);
    if (status == BASE_OK && booted) {
        status = note(ledger, BUDGET_KIND_BOOT, NULL, reterr);
    }
    if (status == BASE_OK && accepted[0] != '\0') {
        status = note(ledger, BUDGET_KIND_CHECKPOINT_ACCEPTED, accepted, reterr);
    }
    return status == BASE_OK ? budget_ledger_commit(ledger, reterr) : status;
}

base_status budget_ledger_open(const budget_ledger_options *options, budget_ledger **ledger,
                               base_error *reterr)
{
    base_error accepted;
    budget_ledger *made = make(options, reterr);
    if (made == NULL) {
        return BASE_ERR_MEMORY;
    }
    base_status status = open_store(made, options, false, reterr);
    status = status == BASE_OK ? load_state(made, reterr) : status;
    if (status == BASE_OK) {
        status = checkpoint_open(made, options, &accepted, reterr);
    }
    status = status == BASE_OK ? start(made, options, accepted.message, reterr) : status;
    if (status != BASE_OK) {
        budget_ledger_close(made);
        return status;
    }
    *ledger = made;
    return BASE_OK;
}

void budget_ledger_close(budget_ledger *ledger)
{
    if (ledger == NULL) {
        return;
    }
    if (ledger->in_batch) {
        budget_ledger_rollback(ledger);
    }
    store_close(&ledger->store);
    base_fd_close(&ledger->checkpoint_fd);
    base_fd_close(&ledger->lock_fd);
    free(ledger);
}

bool budget_ledger_broken(const budget_ledger *ledger)
{
    return ledger->store.broken;
}

base_status budget_ledger_begin(budget_ledger *ledger, const budget_clock *clock,
                                base_error *reterr)
{
    if (ledger->store.broken || ledger->in_batch) {
        return base_fail(reterr, BASE_ERR_STATE,
                         ledger->in_batch ? "a batch is open already"
                                          : "the ledger is broken; the service must end");
    }
    const base_status status = store_run(&ledger->store, reterr, SQL_BEGIN, "");
    if (status != BASE_OK) {
        return status;
    }
    ledger->in_batch = true;
    ledger->lost = false;
    ledger->batch_sequence = ledger->sequence;
    memcpy(ledger->batch_head, ledger->head, sizeof ledger->head);
    ledger->batch_anchor = ledger->anchor;
    budget_clock_advance(&ledger->anchor, clock);
    ledger->now.ledger_ms = ledger->anchor.ledger_ms;
    ledger->now.wall_ms = wall_of(ledger, ledger->anchor.ledger_ms);
    return BASE_OK;
}

static base_status commit_rows(budget_ledger *ledger, base_error *reterr)
{
    const bool early = BUDGET_MUTANT(SIGN_BEFORE_COMMIT);
    base_status status = BASE_OK;
    if (early) {
        status = checkpoint_append(ledger, ledger->batch_sequence, ledger->batch_head, reterr);
    }
    BUDGET_FAILPOINT("before-commit");
    status = status == BASE_OK ? store_commit(&ledger->store, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    BUDGET_FAILPOINT("after-commit");
    ledger->sequence = ledger->batch_sequence;
    memcpy(ledger->head, ledger->batch_head, sizeof ledger->head);
    BUDGET_FAILPOINT("before-checkpoint");
    if (!early) {
        status = checkpoint_append(ledger, ledger->sequence, ledger->head, reterr);
        /* The rows are on disk: nobody may say that nothing was done, or go on as if it were so. */
        ledger->store.broken |= status != BASE_OK;
    }
    BUDGET_FAILPOINT("after-checkpoint");
    return status;
}

base_status budget_ledger_commit(budget_ledger *ledger, base_error *reterr)
{
    if (!ledger->in_batch) {
        return base_fail(reterr, BASE_ERR_STATE, "no batch is open");
    }
    if (ledger->lost || ledger->store.broken) {
        budget_ledger_rollback(ledger);
        return base_fail(reterr, BASE_ERR_IO, "the batch was given up: an operation failed");
    }
    ledger->in_batch = false;
    if (ledger->batch_sequence != ledger->sequence) {
        const base_status status = commit_rows(ledger, reterr);
        if (status != BASE_OK) {
            ledger->anchor = ledger->batch_anchor;
        }
        return status;
    }
    return store_commit(&ledger->store, reterr);
}

void budget_ledger_rollback(budget_ledger *ledger)
{
    if (ledger->in_batch) {
        ledger->in_batch = false;
        ledger->anchor = ledger->batch_anchor;
        store_rollback(&ledger->store);
    }
}

void budget_ledger_head(const budget_ledger *ledger, uint64_t *sequence,
                        uint8_t head[BUDGET_DIGEST_BYTES])
{
    *sequence = ledger->sequence;
    memcpy(head, ledger->head, sizeof ledger->head);
}

base_status budget_ledger_remembers(budget_ledger *ledger, uint64_t sequence,
                                    const uint8_t head[BUDGET_DIGEST_BYTES], base_error *reterr)
{
    uint8_t hash[BUDGET_DIGEST_BYTES] = {0};
    if (sequence == 0) {
        return BASE_OK;
    }
    if (sequence > ledger->sequence) {
        return base_fail(reterr, BASE_ERR_MISMATCH,
                         "the ledger is at row %llu, and row %llu was seen before: it is an older "
                         "copy",
                         (unsigned long long)ledger->sequence, (unsigned long long)sequence);
    }
    store_db *store = &ledger->store;
    base_status status = store_query(store, reterr, SQL_JOURNAL_HASH, "seq:i", (int64_t)sequence);
    const bool row = store_next(store, SQL_JOURNAL_HASH, &status, reterr);
    if (row) {
        store_copy_blob(store, SQL_JOURNAL_HASH, 0, hash, sizeof hash);
        store_done(store, SQL_JOURNAL_HASH);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (!row || sodium_memcmp(hash, head, sizeof hash) != 0) {
        return base_fail(reterr, BASE_ERR_MISMATCH,
                         "row %llu is another one than was seen before: it is another ledger, or "
                         "an older copy gone on",
                         (unsigned long long)sequence);
    }
    return BASE_OK;
}

base_status budget_ledger_now(budget_ledger *ledger, const budget_clock *clock, int64_t *wall_ms,
                              int64_t *skew_ms, base_error *reterr)
{
    if (clock->boot_ms < 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "a clock before its boot");
    }
    *wall_ms = wall_of(ledger, budget_clock_ledger_ms(&ledger->anchor, clock));
    *skew_ms = budget_clock_skew_ms(&ledger->anchor, clock);
    return BASE_OK;
}

base_status budget_ledger_clock_repair(budget_ledger *ledger, const budget_caller *caller,
                                       budget_answer *answer, base_error *reterr)
{
    ledger_op op;
    base_status status = BASE_OK;
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        const int64_t offset_ms = ledger->anchor.offset_ms;
        budget_clock_repair(&ledger->anchor, &ledger->anchor.clock);
        ledger->now.wall_ms = wall_of(ledger, ledger->now.ledger_ms);
        op.row.kind = BUDGET_KIND_CLOCK;
        op.row.amount = ledger->anchor.offset_ms - offset_ms;
        (void)snprintf(answer->message, sizeof answer->message,
                       "the ledger took over the wall clock, which was %" PRId64
                       " s %s its time: each deadline is now so much %s on that clock, and every "
                       "job keeps the time that it had left",
                       (op.row.amount < 0 ? -op.row.amount : op.row.amount) / 1000,
                       op.row.amount < 0 ? "behind" : "ahead of",
                       op.row.amount < 0 ? "earlier" : "later");
        status = op_grant(&op);
    }
    return op_end(&op, status);
}

int64_t wall_of(const budget_ledger *ledger, int64_t ledger_ms)
{
    return ledger_ms == 0 ? 0 : ledger_ms + ledger->anchor.offset_ms;
}
