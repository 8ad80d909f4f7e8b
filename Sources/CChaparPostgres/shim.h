// Debian has it in a folder of its own, which only pkg-config knows.
#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

// Asks a server to cancel a connection's statement: from libpq 17 on encrypted like the connection, and within its
// connect_timeout.
#ifdef LIBPQ_HAS_ASYNC_CANCEL
static inline void *chapar_cancel_make(PGconn *connection) { return PQcancelCreate(connection); }
static inline void chapar_cancel_send(void *cancel) { PQcancelBlocking((PGcancelConn *)cancel); }
static inline void chapar_cancel_free(void *cancel) { PQcancelFinish((PGcancelConn *)cancel); }
#else
static inline void *chapar_cancel_make(PGconn *connection) { return PQgetCancel(connection); }
static inline void chapar_cancel_send(void *cancel) {
    char message[256];
    PQcancel((PGcancel *)cancel, message, sizeof message);
}
static inline void chapar_cancel_free(void *cancel) { PQfreeCancel((PGcancel *)cancel); }
#endif
