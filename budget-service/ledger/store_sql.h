/* The schema, and the text of every statement. Included by store.c, and by the test of their plans. */
#ifndef BUDGET_STORE_SQL_H
#define BUDGET_STORE_SQL_H

#include "store.h"

enum {
    STORE_APPLICATION_ID = 0x52464c47, /* "RFLG" */
    STORE_VERSION = 6,                 /* of the schema, and of the rules that made the rows */
};

/* An end that was proven and then refuted, and not proven anew. */
#define REFUTED_SQL "state = 4 AND (flags & 128) <> 0"

/* It may be billed now: created, past the deadline, or refuted; not of vendor local. */
#define RUNNING_SQL "(flags & 1) = 0 AND (state IN (2, 3) OR (" REFUTED_SQL "))"

/* Whom a vendor may bill: not of vendor local, and not voided. */
#define VENDORS_SQL "vendor <> 'local' AND state <> 6"

static const char schema_sql[] =
    "CREATE TABLE journal(seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL,"
    " offset_ms INTEGER NOT NULL, kind INTEGER NOT NULL, reason INTEGER NOT NULL,"
    " client INTEGER NOT NULL, request TEXT, body BLOB, reservation INTEGER NOT NULL,"
    " account INTEGER NOT NULL, label TEXT, text TEXT, amount INTEGER NOT NULL,"
    " reserved_delta INTEGER NOT NULL, posted_delta INTEGER NOT NULL, state INTEGER NOT NULL,"
    " answer BLOB NOT NULL, data BLOB, hash BLOB NOT NULL) STRICT;"
    "CREATE INDEX journal_boot ON journal(seq) WHERE kind IN (1, 18);" /* GENESIS, BOOT */
    "CREATE TABLE account(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
    " parent INTEGER NOT NULL, cap INTEGER NOT NULL, posted INTEGER NOT NULL,"
    " reserved INTEGER NOT NULL CHECK(reserved >= 0), frozen INTEGER NOT NULL) STRICT;"
    "CREATE TABLE reservation(id INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE,"
    " jti TEXT NOT NULL UNIQUE, account INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " vendor TEXT NOT NULL, mode TEXT NOT NULL, subject TEXT NOT NULL,"
    " instance_type TEXT NOT NULL, amount INTEGER NOT NULL,"
    " total INTEGER NOT NULL, billed INTEGER NOT NULL, held INTEGER NOT NULL CHECK(held >= 0),"
    " state INTEGER NOT NULL, flags INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"
    " max_seconds INTEGER NOT NULL, expires_at_s INTEGER NOT NULL, world_size INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, max_attempts INTEGER NOT NULL, instances INTEGER NOT NULL,"
    " job_key BLOB, evidence BLOB, authorized_ms INTEGER NOT NULL,"
    " ended_ms INTEGER NOT NULL, actual_ms INTEGER NOT NULL,"
    " started_ms INTEGER NOT NULL, vendor_account TEXT NOT NULL) STRICT;"
    "CREATE INDEX reservation_due ON reservation(deadline_ms) WHERE state = 2 AND deadline_ms > 0;"
    "CREATE INDEX reservation_overdue ON reservation(deadline_ms) WHERE state = 3;"
    "CREATE INDEX reservation_refuted ON reservation(deadline_ms) WHERE " REFUTED_SQL ";"
    "CREATE INDEX reservation_running ON reservation(id) WHERE " RUNNING_SQL ";"
    "CREATE INDEX reservation_vendor ON reservation(vendor) WHERE " VENDORS_SQL ";"
    "CREATE TABLE redemption(reservation INTEGER NOT NULL, attempt INTEGER NOT NULL,"
    " rank INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(reservation, attempt, rank))"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE request(client INTEGER NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL,"
    " seq INTEGER NOT NULL, PRIMARY KEY(client, id)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE line(vendor TEXT NOT NULL, instance TEXT NOT NULL, id TEXT NOT NULL,"
    " reservation INTEGER NOT NULL, amount INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " PRIMARY KEY(vendor, instance, id)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX line_reservation ON line(reservation, id);"
    "CREATE TABLE instance(id TEXT NOT NULL, vendor TEXT NOT NULL, reservation INTEGER NOT NULL,"
    " seq INTEGER NOT NULL, PRIMARY KEY(id, vendor)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX instance_reservation ON instance(reservation);"
    "CREATE TABLE evidence(digest BLOB PRIMARY KEY, bytes BLOB NOT NULL) STRICT;"
    "CREATE TABLE client(id INTEGER PRIMARY KEY, name TEXT NOT NULL, key BLOB NOT NULL UNIQUE,"
    " role INTEGER NOT NULL, revoked INTEGER NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX client_name ON client(name) WHERE revoked = 0;";

#define ACCOUNT_COLUMNS "id, name, parent, cap, posted, reserved, frozen"
#define JOURNAL_COLUMNS                                                                            \
    "seq, at_ms, offset_ms, kind, reason, client, request, body, reservation, account, label,"     \
    " text, amount, reserved_delta, posted_delta, state, answer, data, hash"
#define RESERVATION_COLUMNS                                                                        \
    "id, label, jti, account, seq, vendor, mode, amount, total, billed, held, state, flags,"       \
    " deadline_ms, max_seconds, expires_at_s, world_size, attempt, max_attempts, instances,"       \
    " job_key, evidence, authorized_ms, ended_ms, actual_ms, subject, instance_type,"              \
    " started_ms, vendor_account"

/* A deadline that is over, and no row says so: created, and not of vendor local, which ends then. */
#define PASSED_SQL "state = 2 AND deadline_ms > 0 AND deadline_ms <= :now AND (flags & 1) = 0"

/* The same of one whose proof of the end was refuted. */
#define PASSED_REFUTED_SQL                                                                         \
    REFUTED_SQL " AND deadline_ms > 0 AND deadline_ms <= :now AND (flags & 1) = 0"

/* So long before its deadline a run is reminded of: a tenth of its time at most. */
#define REMIND_SQL "(deadline_ms - min(:lead_ms, max_seconds * 100))"

static const char *const statement_sql[SQL_COUNT_] = {
    [SQL_BEGIN] = "BEGIN",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_JOURNAL_INSERT] =
        "INSERT INTO journal(" JOURNAL_COLUMNS ") VALUES(:seq, :at_ms, :offset_ms, :kind, :reason,"
        " :client, :request, :body, :reservation, :account, :label, :text, :amount, "
        ":reserved_delta, :posted_delta, :state, :answer, :data, :hash)",
    [SQL_JOURNAL_GET] = "SELECT " JOURNAL_COLUMNS " FROM journal WHERE seq = :seq",
    [SQL_JOURNAL_LAST] = "SELECT " JOURNAL_COLUMNS " FROM journal ORDER BY seq DESC LIMIT 1",
    [SQL_JOURNAL_BOOT] = "SELECT " JOURNAL_COLUMNS " FROM journal WHERE kind IN (1, 18)"
                         " ORDER BY seq DESC LIMIT 1",
    [SQL_JOURNAL_WALK] =
        "SELECT " JOURNAL_COLUMNS " FROM journal WHERE seq > :after ORDER BY seq LIMIT :max",
    [SQL_JOURNAL_HASH] = "SELECT hash FROM journal WHERE seq = :seq",
    [SQL_REQUEST_GET] = "SELECT body, seq FROM request WHERE client = :client AND id = :id",
    [SQL_REQUEST_INSERT] =
        "INSERT INTO request(client, id, body, seq) VALUES(:client, :id, :body, :seq)",
    [SQL_ACCOUNT_BY_NAME] = "SELECT " ACCOUNT_COLUMNS " FROM account WHERE name = :name",
    [SQL_ACCOUNT_BY_ID] = "SELECT " ACCOUNT_COLUMNS " FROM account WHERE id = :id",
    [SQL_ACCOUNT_INSERT] =
        "INSERT INTO account(" ACCOUNT_COLUMNS ") VALUES(:id, :name, :parent, :cap, 0, 0, 0)",
    [SQL_ACCOUNT_COUNT] = "SELECT count(*) FROM account",
    [SQL_ACCOUNT_RESERVE] = "UPDATE account SET reserved = reserved + :amount WHERE id = :id"
                            " AND frozen = 0 AND posted + reserved + :amount <= cap",
    [SQL_ACCOUNT_UPDATE] =
        "UPDATE account SET posted = :posted, reserved = :reserved, frozen = :frozen"
        " WHERE id = :id AND posted = :posted_before AND reserved = :reserved_before",
    [SQL_ACCOUNT_SET] = "UPDATE account SET cap = :cap, frozen = :frozen WHERE id = :id",
    [SQL_ACCOUNT_WALK] = "SELECT " ACCOUNT_COLUMNS " FROM account ORDER BY name",
    [SQL_ACCOUNT_FROZEN_COUNT] = "SELECT count(*) FROM account WHERE frozen <> 0",
    [SQL_TOTAL_SPENT] = "SELECT coalesce(sum(posted), 0) FROM account WHERE parent = 0",
    [SQL_RESERVATION_INSERT] =
        "INSERT INTO reservation(" RESERVATION_COLUMNS
        ") VALUES(:id, :label, :jti, :account, :seq, :vendor, :mode, :amount,"
        " 0, 0, :amount, 1, :flags, 0, :max_seconds, :expires_at_s, :world_size, 0, :max_attempts, "
        ":instances, NULL, NULL, :authorized_ms, 0, 0,"
        " :subject, :instance_type, 0, '')",
    [SQL_RESERVATION_UPDATE] = "UPDATE reservation SET total = :total, billed = :billed, held = "
                               ":held, state = :state, flags = :flags,"
                               " deadline_ms = :deadline_ms, attempt = :attempt, job_key = "
                               ":job_key, evidence = :evidence, ended_ms = :ended_ms,"
                               " actual_ms = :actual_ms, started_ms = :started_ms,"
                               " vendor_account = :vendor_account WHERE id = :id AND total = "
                               ":total_before AND held = :held_before",
    [SQL_RESERVATION_LAST] = "SELECT coalesce(max(id), 0) FROM reservation",
    [SQL_RESERVATION_BY_LABEL] =
        "SELECT " RESERVATION_COLUMNS " FROM reservation WHERE label = :key",
    [SQL_RESERVATION_BY_JTI] = "SELECT " RESERVATION_COLUMNS " FROM reservation WHERE jti = :key",
    [SQL_RESERVATION_BY_ID] = "SELECT " RESERVATION_COLUMNS " FROM reservation WHERE id = :id",
    [SQL_RESERVATION_WALK] =
        "SELECT " RESERVATION_COLUMNS " FROM reservation WHERE id > :after ORDER BY id LIMIT :max",
    [SQL_RESERVATION_DUE] = "SELECT " RESERVATION_COLUMNS " FROM reservation WHERE state = 2"
                            " AND deadline_ms > 0 AND deadline_ms <= :now ORDER BY deadline_ms"
                            " LIMIT 1",
    /* Those that have no row of that yet count too: a full disk hides no deadline. */
    [SQL_RESERVATION_OVERDUE] =
        "SELECT " RESERVATION_COLUMNS " FROM reservation WHERE state = 3"
        " AND (deadline_ms, id) > (:after_ms, :after) UNION ALL SELECT " RESERVATION_COLUMNS
        " FROM reservation WHERE " PASSED_SQL " AND (deadline_ms, id) > (:after_ms, :after)"
        " UNION ALL SELECT " RESERVATION_COLUMNS " FROM reservation WHERE " PASSED_REFUTED_SQL
        " AND (deadline_ms, id) > (:after_ms, :after)"
        " ORDER BY deadline_ms, id LIMIT :max",
    [SQL_RESERVATION_OVERDUE_COUNT] =
        "SELECT (SELECT count(*) FROM reservation WHERE state = 3)"
        " + (SELECT count(*) FROM reservation WHERE " PASSED_SQL ")"
        " + (SELECT count(*) FROM reservation WHERE " PASSED_REFUTED_SQL ")",
    [SQL_RESERVATION_ENDING] =
        "SELECT " RESERVATION_COLUMNS
        " FROM reservation WHERE state = 2 AND deadline_ms > 0 AND deadline_ms > :now"
        " AND deadline_ms <= :now + :lead_ms AND (flags & 1) = 0 AND " REMIND_SQL " <= :now"
        " AND (" REMIND_SQL ", id) > (:after_ms, :after) ORDER BY " REMIND_SQL ", id LIMIT :max",
    /* SQLite would walk all runs by their ids, which are the table's keys. */
    [SQL_RESERVATION_RUNNING] =
        "SELECT " RESERVATION_COLUMNS " FROM reservation INDEXED BY reservation_running"
        " WHERE id > :after AND " RUNNING_SQL " ORDER BY id LIMIT :max",
    [SQL_RESERVATION_NEXT_DEADLINE] = "SELECT min(deadline_ms) FROM reservation WHERE state = 2"
                                      " AND deadline_ms > 0",
    [SQL_REDEMPTION_GET] = "SELECT seq FROM redemption WHERE reservation = :reservation AND "
                           "attempt = :attempt AND rank = :rank",
    [SQL_REDEMPTION_INSERT] = "INSERT INTO redemption(reservation, attempt, rank, seq) "
                              "VALUES(:reservation, :attempt, :rank, :seq)",
    [SQL_LINE_GET] = "SELECT reservation, amount, seq FROM line WHERE vendor = :vendor"
                     " AND instance = :instance AND id = :id",
    [SQL_LINE_OF_RUN] = "SELECT reservation, amount, seq FROM line WHERE reservation = :reservation"
                        " AND id = :id AND (instance = '' OR :instance = '') LIMIT 2",
    [SQL_LINE_OF_INSTANCE] = "SELECT count(*) FROM line WHERE reservation = :reservation"
                             " AND instance = :instance",
    [SQL_LINE_INSERT] = "INSERT INTO line(vendor, instance, id, reservation, amount, seq)"
                        " VALUES(:vendor, :instance, :id, :reservation, :amount, :seq)",
    [SQL_LINE_UPDATE] = "UPDATE line SET amount = :amount, seq = :seq"
                        " WHERE reservation = :reservation AND id = :id AND seq = :seq_before",
    [SQL_INSTANCE_GET] =
        "SELECT reservation, seq FROM instance WHERE id = :id AND vendor = :vendor",
    [SQL_INSTANCE_ANY] = "SELECT reservation, seq FROM instance WHERE id = :id ORDER BY vendor",
    [SQL_VENDOR_OTHER] =
        "SELECT id FROM reservation WHERE " VENDORS_SQL " AND vendor < :vendor"
        " UNION ALL SELECT id FROM reservation WHERE " VENDORS_SQL " AND vendor > :vendor LIMIT 1",
    [SQL_INSTANCE_INSERT] = "INSERT INTO instance(id, vendor, reservation, seq) VALUES(:id, "
                            ":vendor, :reservation, :seq)",
    [SQL_INSTANCE_REPLACE] = "UPDATE instance SET id = :id, seq = :seq WHERE id = :before"
                             " AND vendor = :vendor AND reservation = :reservation",
    [SQL_INSTANCE_COUNT] = "SELECT count(*) FROM instance WHERE reservation = :reservation",
    [SQL_INSTANCE_FIRST] =
        "SELECT id FROM instance WHERE reservation = :reservation ORDER BY seq LIMIT 1",
    [SQL_INSTANCE_OF_RUN] = "SELECT id FROM instance WHERE reservation = :reservation ORDER BY seq",
    [SQL_INSTANCE_WALK] =
        "SELECT id, seq FROM instance WHERE reservation = :reservation ORDER BY id",
    [SQL_EVIDENCE_INSERT] = "INSERT OR IGNORE INTO evidence(digest, bytes) VALUES(:digest, :bytes)",
    [SQL_EVIDENCE_GET] = "SELECT bytes FROM evidence WHERE digest = :digest",
    [SQL_CLIENT_INSERT] =
        "INSERT INTO client(id, name, key, role, revoked) VALUES(:id, :name, :key, :role, 0)",
    [SQL_CLIENT_BY_KEY] = "SELECT id, name, key, role, revoked FROM client WHERE key = :key",
    [SQL_CLIENT_BY_NAME] =
        "SELECT id, name, key, role, revoked FROM client WHERE name = :name AND revoked = 0",
    [SQL_CLIENT_REVOKED] = "SELECT revoked FROM client WHERE id = :id",
    [SQL_CLIENT_REVOKE] = "UPDATE client SET revoked = 1 WHERE id = :id",
    [SQL_CLIENT_WALK] = "SELECT id, name, key, role, revoked FROM client ORDER BY id",
    [SQL_CLIENT_COUNT] = "SELECT coalesce(max(id), 0) FROM client",
    [SQL_CLIENT_COUNT_ROLE] = "SELECT count(*) FROM client WHERE role = :role AND revoked = 0",
};

#endif
