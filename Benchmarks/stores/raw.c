/* raw URL INSERTION END ROWS TOTAL: what the PostgreSQL store's two statements cost without a gateway.
 *
 * One connection inserts deliveries, given out as they come, ROWS a statement; another ends them, as the gateway does when platforms
 * accept. INSERTION and END are files with the statements, as the store has them. Prints deliveries a second.
 */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BOOL = 16, BYTEA = 17, INT8 = 20, TEXT = 25, BYTEAS = 1001, TEXTS = 1009, INT8S = 1016, MOST = 32 };

typedef struct { char *bytes; size_t size, room; } Buffer;

static void add(Buffer *b, const void *bytes, size_t size) {
    if (b->size + size > b->room) {
        b->room = 2 * (b->size + size);
        b->bytes = realloc(b->bytes, b->room);
    }
    memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
}
static void add32(Buffer *b, int32_t v) { uint32_t n = __builtin_bswap32((uint32_t)v); add(b, &n, 4); }
static void add64(Buffer *b, int64_t v) { uint64_t n = __builtin_bswap64((uint64_t)v); add(b, &n, 8); }
static void begin(Buffer *b, int type, int rows) {
    b->size = 0;
    add32(b, 1), add32(b, 1), add32(b, type), add32(b, rows), add32(b, 1);
}

typedef struct {
    PGconn *db;
    Buffer buffers[MOST];
    Oid types[MOST];
    int count;
} Statement;

static int rows, total;
static int64_t base, node;
static const int64_t slot = 63;  /* No gateway of a benchmark has this place. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int inserted;

static void fail(PGconn *db, const char *what) {
    fprintf(stderr, "%s: %s", what, PQerrorMessage(db));
    exit(1);
}
static char *text_of(const char *path) {
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 65536);
    if (!file || !fread(text, 1, 65535, file)) exit(2);
    fclose(file);
    return text;
}
static void some_numbers(Statement *s, int count, int64_t first, int64_t step, int isNull) {
    Buffer *b = &s->buffers[s->count];
    s->types[s->count++] = INT8S;
    begin(b, INT8, count);
    for (int i = 0; i < count; i++) {
        if (isNull) { add32(b, -1); continue; }
        add32(b, 8), add64(b, first + i * step);
    }
}
static void numbers(Statement *s, int64_t first, int64_t step, int isNull) { some_numbers(s, rows, first, step, isNull); }
static void texts(Statement *s, int array, int type, size_t size, const char *fixed, int isNull) {
    Buffer *b = &s->buffers[s->count];
    static char filler[1024];
    memset(filler, 'x', sizeof filler);
    s->types[s->count++] = array;
    begin(b, type, rows);
    for (int i = 0; i < rows; i++) {
        if (isNull) { add32(b, -1); continue; }
        size_t length = fixed ? strlen(fixed) : size;
        add32(b, (int32_t)length), add(b, fixed ? fixed : filler, length);
    }
}
static void number(Statement *s, int64_t value) {
    Buffer *b = &s->buffers[s->count];
    s->types[s->count++] = INT8;
    b->size = 0;
    add64(b, value);
}
static void prepare(Statement *s, const char *url, const char *path) {
    s->db = PQconnectdb(url);
    if (PQstatus(s->db) != CONNECTION_OK) fail(s->db, "connect");
    PQclear(PQexec(s->db, "SET enable_seqscan = off; SET jit = off"));  /* As the store's transactions have it. */
    PGresult *result = PQprepare(s->db, "s", text_of(path), s->count, s->types);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) fail(s->db, "prepare");
    PQclear(result);
}
static void execute(Statement *s) {
    const char *values[MOST];
    int lengths[MOST], formats[MOST];
    for (int i = 0; i < s->count; i++) {
        values[i] = s->buffers[i].bytes, lengths[i] = (int)s->buffers[i].size, formats[i] = 1;
    }
    PGresult *result = PQexecPrepared(s->db, "s", s->count, values, lengths, formats, 1);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail(s->db, "execute");
    if (status == PGRES_COMMAND_OK ? atoi(PQcmdTuples(result)) != rows : PQntuples(result) != rows) {
        fprintf(stderr, "execute: not as many rows as were given\n");
        exit(1);
    }
    PQclear(result);
}
static void fill_insertion(Statement *s, int64_t first, int64_t now) {
    s->count = 0;
    numbers(s, first, 1, 0), numbers(s, 1, 0, 0), texts(s, TEXTS, TEXT, 0, "shop", 0), numbers(s, now, 0, 0);
    numbers(s, 0, 0, 1), numbers(s, now + 7200000, 0, 0), texts(s, TEXTS, TEXT, 0, NULL, 1);
    texts(s, TEXTS, TEXT, 0, "ios", 0), texts(s, BYTEAS, BYTEA, 60, NULL, 0);
    numbers(s, first, 1, 0), numbers(s, first, 1, 0), numbers(s, 1, 0, 0), numbers(s, now, 0, 0);
    numbers(s, now + 7200000, 0, 0), numbers(s, 1, 0, 0), numbers(s, 7, 0, 0), numbers(s, 0, 0, 1), numbers(s, 0, 0, 0);
    texts(s, TEXTS, TEXT, 73, NULL, 0), number(s, now), texts(s, BYTEAS, BYTEA, 160, NULL, 0);
    number(s, node), number(s, slot);
}
static void fill_end(Statement *s, int64_t first, int64_t now) {
    s->count = 0;
    numbers(s, first, 1, 0), numbers(s, 7, 0, 0), numbers(s, 1, 0, 0), texts(s, BYTEAS, BYTEA, 120, NULL, 0);
    texts(s, BYTEAS, BYTEA, 300, NULL, 0), numbers(s, 0, 0, 1), numbers(s, 0, 0, 1), number(s, now);
    some_numbers(s, 1, 1, 0, 0);  /* The node that has claimed them. */
}
/* Takes a node's place, without which nothing is stored. */
static void take_place(const char *url) {
    PGconn *db = PQconnectdb(url);
    PGresult *result = PQexec(
        db, "INSERT INTO chapar.nodes (slot, name, lease_until) VALUES (63, 'raw', now() + interval '1 day') RETURNING number");
    if (PQresultStatus(result) != PGRES_TUPLES_OK) fail(db, "a node's place");
    node = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    PQfinish(db);
}
static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static Statement insertion, end;

static void *insert(void *unused) {
    for (int done = 0; done < total; done += rows) {
        fill_insertion(&insertion, base + done, milliseconds());
        execute(&insertion);
        pthread_mutex_lock(&lock);
        inserted = done + rows;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(int count, char **words) {
    if (count != 6) return 2;
    rows = atoi(words[4]), total = atoi(words[5]) / rows * rows;
    base = (milliseconds() - 1704067200000LL) << 21;
    take_place(words[1]);
    fill_insertion(&insertion, base, 0), fill_end(&end, base, 0);
    prepare(&insertion, words[1], words[2]);
    prepare(&end, words[1], words[3]);
    int64_t started = milliseconds();
    pthread_t writer;
    pthread_create(&writer, NULL, insert, NULL);
    for (int done = 0; done < total; done += rows) {
        pthread_mutex_lock(&lock);
        while (inserted < done + rows) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        fill_end(&end, base + done, milliseconds());
        execute(&end);
    }
    pthread_join(writer, NULL);
    printf("%.0f\n", total * 1000.0 / (double)(milliseconds() - started));
    return 0;
}
