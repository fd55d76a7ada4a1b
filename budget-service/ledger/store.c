/* The SQLite connection: settings, prepared statements, errors, commit. Called by everything in
 * ledger/, and by audit/ for its scratch database. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "store_sql.h"

enum {
    PARAMETER_BYTES = 32, /* ":name" of a statement's parameter */
    WAL_PAGES_MAX = 1000, /* then the log is moved into the database */
    CACHE_KIB = 16 * 1024,
    SCRATCH_CACHE_KIB = 32 * 1024,
};

/* What SQLite said, as a status; a failed sync or a damaged file breaks the store. */
static base_status failed(store_db *store, int code, base_error *reterr, const char *doing)
{
    const int extended = store->db != NULL ? sqlite3_extended_errcode(store->db) : code;
    const char *message = store->db != NULL ? sqlite3_errmsg(store->db) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return base_fail(reterr, BASE_ERR_BUSY, "%s: %s is in use by another process", doing,
                         store->path);
    case SQLITE_FULL:
        return base_fail(reterr, BASE_ERR_IO, "%s: no space left for %s", doing, store->path);
    case SQLITE_READONLY:
        return base_fail(reterr, BASE_ERR_IO, "%s: %s is read-only", doing, store->path);
    case SQLITE_CONSTRAINT:
        return base_fail(reterr, BASE_ERR_STATE, "%s: %s: %s", doing, store->path, message);
    case SQLITE_NOMEM:
        return base_fail(reterr, BASE_ERR_MEMORY, "%s: no memory", doing);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        store->broken = true;
        return base_fail(reterr, BASE_ERR_INVALID, "%s: %s is damaged: %s", doing, store->path,
                         message);
    case SQLITE_IOERR:
        store->broken = extended != SQLITE_IOERR_NOMEM;
        return base_fail(reterr, BASE_ERR_IO, "%s: %s: %s (SQLite %d, errno %d)", doing,
                         store->path, message, extended,
                         store->db != NULL ? sqlite3_system_errno(store->db) : 0);
    default:
        return base_fail(reterr, BASE_ERR_IO, "%s: %s: %s", doing, store->path, message);
    }
}

static base_status execute(store_db *store, const char *sql, base_error *reterr)
{
    const int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? BASE_OK : failed(store, code, reterr, "cannot open the ledger");
}

static base_status read_pragma(store_db *store, const char *sql, int64_t *value, base_error *reterr)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);
    if (code != SQLITE_OK) {
        return failed(store, code, reterr, "cannot open the ledger");
    }
    code = sqlite3_step(statement);
    *value = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    (void)sqlite3_finalize(statement);
    return code == SQLITE_ROW ? BASE_OK : failed(store, code, reterr, "cannot open the ledger");
}

static base_status check_version(store_db *store, base_error *reterr)
{
    int64_t application = 0;
    int64_t version = 0;
    base_status status = read_pragma(store, "PRAGMA application_id", &application, reterr);
    status =
        status == BASE_OK ? read_pragma(store, "PRAGMA user_version", &version, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    if (application != STORE_APPLICATION_ID) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s is not a ledger", store->path);
    }
    if (version != STORE_VERSION) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s is a ledger of version %lld, and this is for version %d: keep it, and "
                         "begin a new one in another directory (docs/LEDGER.md, Versions)",
                         store->path, (long long)version, STORE_VERSION);
    }
    return BASE_OK;
}

/* Where SQLite cannot use a write-ahead log it keeps another journal, without an error. */
static base_status check_log(store_db *store, base_error *reterr)
{
    int64_t used = 0;
    const base_status status =
        read_pragma(store, "SELECT journal_mode = 'wal' FROM pragma_journal_mode", &used, reterr);
    return status != BASE_OK || used != 0
               ? status
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "cannot open the ledger: SQLite cannot use a write-ahead log for %s",
                           store->path);
}

static base_status configure(store_db *store, bool create, base_error *reterr)
{
    char sql[256];
    /* No trigger and no view is ours: one that somebody put into the file does nothing. */
    (void)sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    (void)sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    (void)sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)snprintf(sql, sizeof sql,
                   "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cell_size_check=ON;"
                   "PRAGMA trusted_schema=OFF; PRAGMA cache_size=-%d;",
                   CACHE_KIB);
    base_status status = execute(store, sql, reterr);
    if (status == BASE_OK && create) {
        (void)snprintf(sql, sizeof sql,
                       "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; BEGIN EXCLUSIVE;"
                       "PRAGMA application_id=%d; PRAGMA user_version=%d;",
                       STORE_APPLICATION_ID, STORE_VERSION);
        status = execute(store, sql, reterr);
        status = status == BASE_OK ? execute(store, schema_sql, reterr) : status;
        status = status == BASE_OK ? execute(store, "COMMIT", reterr) : status;
    }
    if (status == BASE_OK) {
        status = execute(store,
                         "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                         "PRAGMA wal_autocheckpoint=0; BEGIN EXCLUSIVE; COMMIT;",
                         reterr);
    }
    status = status == BASE_OK ? check_log(store, reterr) : status;
    return status == BASE_OK ? check_version(store, reterr) : status;
}

/* SQLite makes files with the umask's mode; the ledger is its owner's alone. */
static base_status make_file(const char *path, base_error *reterr)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST) {
        return base_fail(reterr, BASE_ERR_STATE, "%s is there already", path);
    }
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot make %s", path);
    }
    (void)close(fd);
    return BASE_OK;
}

static base_status watch(store_db *store, base_error *reterr)
{
    struct stat info;
    if (stat(store->path, &info) != 0) {
        return base_fail_errno(reterr, errno, "cannot look at %s", store->path);
    }
    store->watched = true;
    store->database_device = info.st_dev;
    store->database_inode = info.st_ino;
    return BASE_OK;
}

base_status store_open(store_db *store, const char *path, const char *vfs, bool create,
                       base_error *reterr)
{
    memset(store, 0, sizeof *store);
    (void)snprintf(store->path, sizeof store->path, "%s", path);
    base_status status = BASE_OK;
    if (vfs == NULL && create) {
        status = make_file(path, reterr);
    } else if (vfs == NULL && access(path, F_OK) != 0) {
        status = errno == ENOENT ? base_fail(reterr, BASE_ERR_NOTFOUND,
                                             "%s is missing: put the newest copies of it and of "
                                             "checkpoints back, or init another directory",
                                             path)
                                 : base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    if (status != BASE_OK) {
        return status;
    }
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                      (vfs != NULL && create ? SQLITE_OPEN_CREATE : 0);
    const int code = sqlite3_open_v2(path, &store->db, flags, vfs);
    status = code == SQLITE_OK ? configure(store, create, reterr)
                               : failed(store, code, reterr, "cannot open the ledger");
    if (status == BASE_OK && vfs == NULL) {
        status = watch(store, reterr);
    }
    if (status != BASE_OK) {
        store_close(store);
    }
    return status;
}

base_status store_open_scratch(store_db *store, base_error *reterr)
{
    char sql[256];
    memset(store, 0, sizeof *store);
    (void)snprintf(store->path, sizeof store->path, "a temporary ledger");
    const int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int code = sqlite3_open_v2("", &store->db, flags, NULL);
    (void)snprintf(sql, sizeof sql,
                   "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA cache_size=-%d;"
                   "BEGIN;",
                   SCRATCH_CACHE_KIB);
    base_status status = code == SQLITE_OK ? execute(store, sql, reterr)
                                           : failed(store, code, reterr, "cannot open a ledger");
    status = status == BASE_OK ? execute(store, schema_sql, reterr) : status;
    if (status != BASE_OK) {
        store_close(store);
    }
    return status;
}

void store_close(store_db *store)
{
    for (int i = 0; i < SQL_COUNT_; i++) {
        (void)sqlite3_finalize(store->statements[i]);
        store->statements[i] = NULL;
    }
    (void)sqlite3_close(store->db);
    store->db = NULL;
}

/* Which parameter each value of the format is for. It is kept: a statement mostly comes with the
 * same format, and a search for the names would cost a tenth of an audit. */
static void find_parameters(store_binding *binding, sqlite3_stmt *statement, const char *format)
{
    binding->format = format;
    binding->count = 0;
    while (*format != '\0') {
        char name[PARAMETER_BYTES] = ":";
        const size_t length = strcspn(format, ":");
        BASE_ASSERT(format[length] == ':' && length + 2 <= sizeof name);
        BASE_ASSERT(binding->count < STORE_PARAMETERS_MAX);
        memcpy(name + 1, format, length);
        name[length + 1] = '\0';
        const int at = sqlite3_bind_parameter_index(statement, name);
        BASE_ASSERT(at > 0);
        binding->places[binding->count] = (uint8_t)at;
        binding->types[binding->count++] = format[length + 1];
        format += length + 2;
        format += *format == ' ' ? 1 : 0;
    }
    BASE_ASSERT(binding->count == sqlite3_bind_parameter_count(statement));
}

static int bind_value(sqlite3_stmt *statement, int at, char type, va_list *args)
{
    if (type == 'i') {
        return sqlite3_bind_int64(statement, at, va_arg(*args, int64_t));
    }
    if (type == 't') {
        return sqlite3_bind_text(statement, at, va_arg(*args, const char *), -1, SQLITE_STATIC);
    }
    const void *data = va_arg(*args, const void *);
    const size_t size_bytes = va_arg(*args, size_t);
    return data == NULL ? sqlite3_bind_null(statement, at)
                        : sqlite3_bind_blob64(statement, at, data, size_bytes, SQLITE_STATIC);
}

static base_status bind(store_db *store, store_sql sql, const char *format, va_list args,
                        base_error *reterr)
{
    sqlite3_stmt **statement = &store->statements[sql];
    int code = SQLITE_OK;
    if (*statement == NULL) {
        code = sqlite3_prepare_v3(store->db, statement_sql[sql], -1, SQLITE_PREPARE_PERSISTENT,
                                  statement, NULL);
        if (code != SQLITE_OK) {
            return failed(store, code, reterr, "cannot prepare a statement");
        }
    }
    (void)sqlite3_reset(*statement);
    store_binding *binding = &store->bindings[sql];
    if (binding->format != format) {
        find_parameters(binding, *statement, format);
    }
    va_list values;
    va_copy(values, args);
    for (int i = 0; i < binding->count && code == SQLITE_OK; i++) {
        code = bind_value(*statement, binding->places[i], binding->types[i], &values);
    }
    va_end(values);
    return code == SQLITE_OK ? BASE_OK : failed(store, code, reterr, "cannot bind a value");
}

base_status store_query(store_db *store, base_error *reterr, store_sql sql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const base_status status = bind(store, sql, format, args, reterr);
    va_end(args);
    return status;
}

bool store_next(store_db *store, store_sql sql, base_status *status, base_error *reterr)
{
    const int code = *status == BASE_OK ? sqlite3_step(store->statements[sql]) : SQLITE_DONE;
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        *status = failed(store, code, reterr, "the ledger");
    }
    if (code != SQLITE_ROW) {
        store_done(store, sql);
    }
    return code == SQLITE_ROW;
}

void store_done(store_db *store, store_sql sql)
{
    (void)sqlite3_reset(store->statements[sql]);
}

static base_status run(store_db *store, store_sql sql, const char *format, va_list args,
                       base_error *reterr)
{
    base_status status = bind(store, sql, format, args, reterr);
    (void)store_next(store, sql, &status, reterr);
    return status;
}

base_status store_run(store_db *store, base_error *reterr, store_sql sql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const base_status status = run(store, sql, format, args, reterr);
    va_end(args);
    return status;
}

base_status store_run_one(store_db *store, base_error *reterr, store_sql sql, const char *format,
                          ...)
{
    va_list args;
    va_start(args, format);
    const base_status status = run(store, sql, format, args, reterr);
    va_end(args);
    if (status == BASE_OK && sqlite3_changes(store->db) != 1) {
        return base_fail(reterr, BASE_ERR_STATE,
                         "%s: a row is not what it was a moment ago; run budget-service audit",
                         store->path);
    }
    return status;
}

base_status store_number(store_db *store, base_error *reterr, store_sql sql, int64_t *number,
                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    base_status status = bind(store, sql, format, args, reterr);
    va_end(args);
    *number = store_next(store, sql, &status, reterr) ? store_int(store, sql, 0) : 0;
    store_done(store, sql);
    return status;
}

int64_t store_int(const store_db *store, store_sql sql, int column)
{
    return sqlite3_column_int64(store->statements[sql], column);
}

const char *store_text(const store_db *store, store_sql sql, int column)
{
    return (const char *)sqlite3_column_text(store->statements[sql], column);
}

const void *store_blob(const store_db *store, store_sql sql, int column, size_t *size_bytes)
{
    const void *data = sqlite3_column_blob(store->statements[sql], column);
    *size_bytes = (size_t)sqlite3_column_bytes(store->statements[sql], column);
    return data;
}

void store_copy_text(const store_db *store, store_sql sql, int column, char *text,
                     size_t text_bytes)
{
    const char *value = store_text(store, sql, column);
    memset(text, 0, text_bytes); /* to the end: answers are compared byte by byte */
    (void)snprintf(text, text_bytes, "%s", value != NULL ? value : "");
}

void store_copy_blob(const store_db *store, store_sql sql, int column, void *data,
                     size_t size_bytes)
{
    size_t have_bytes = 0;
    const void *value = store_blob(store, sql, column, &have_bytes);
    if (value != NULL && have_bytes == size_bytes) {
        memcpy(data, value, size_bytes);
    } else {
        memset(data, 0, size_bytes);
    }
}

/* A file that was deleted or replaced while we hold it open takes every write and keeps none. */
static base_status still_ours(store_db *store, base_error *reterr)
{
    struct stat info;
    char log[BASE_PATH_BYTES + 8];
    (void)snprintf(log, sizeof log, "%s-wal", store->path);
    if (stat(store->path, &info) != 0 || info.st_dev != store->database_device ||
        info.st_ino != store->database_inode) {
        store->broken = true;
        return base_fail(reterr, BASE_ERR_IO, "%s has been taken away or replaced", store->path);
    }
    if (stat(log, &info) != 0) {
        store->broken = true;
        return base_fail(reterr, BASE_ERR_IO, "%s has been taken away", log);
    }
    return BASE_OK;
}

static int log_grown(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    *(int *)context = pages;
    return SQLITE_OK;
}

base_status store_commit(store_db *store, base_error *reterr)
{
    int pages = 0;
    (void)sqlite3_wal_hook(store->db, log_grown, &pages);
    base_status status = store_run(store, reterr, SQL_COMMIT, "");
    (void)sqlite3_wal_hook(store->db, NULL, NULL);
    if (status != BASE_OK) {
        store_rollback(store);
        return status;
    }
    if (store->watched && pages > 0) {
        status = still_ours(store, reterr);
    }
    if (status == BASE_OK && pages >= WAL_PAGES_MAX) {
        const int code =
            sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        if ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CORRUPT) {
            status = failed(store, code, reterr, "cannot move the log into the ledger");
        }
    }
    return status;
}

void store_rollback(store_db *store)
{
    if (sqlite3_get_autocommit(store->db) == 0 &&
        store_run(store, NULL, SQL_ROLLBACK, "") != BASE_OK) {
        store->broken = true;
    }
}
