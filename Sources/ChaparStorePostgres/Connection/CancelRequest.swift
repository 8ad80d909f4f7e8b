internal import CChaparPostgres
internal import Foundation
internal import Synchronization

/// Asks the server to end the statement of a connection that is given up; otherwise the statement runs on and keeps its
/// locks.
///
/// Each request has its own thread, since libpq blocks on the network for `connect_timeout` or, before libpq 17, for
/// `tcp_user_timeout`. No caller waits for the thread, and nothing depends on it.
enum CancelRequest {
    /// The most cancel requests under way at once.
    private static let most = 16
    private static let underWay = Atomic(0)

    /// Sends a request, then frees it and closes its connection: a pooler finds the statement by the open connection.
    ///
    /// When too many requests are under way it only frees and closes. The caller must not use either pointer
    /// afterwards.
    static func send(_ cancel: UnsafeMutableRawPointer, thenClose connection: OpaquePointer) {
        let isTooMany = underWay.wrappingAdd(1, ordering: .relaxed).newValue > most
        // From here on only the thread uses them.
        nonisolated(unsafe) let (cancel, connection) = (cancel, connection)
        let body: @Sendable () -> Void = {
            if !isTooMany { chapar_cancel_send(cancel) }
            chapar_cancel_free(cancel)
            PQfinish(connection)
            underWay.wrappingSubtract(1, ordering: .relaxed)
        }
        if isTooMany { return body() }
        let thread = Thread(block: body)
        thread.name = "cancel"
        thread.start()
    }
}
