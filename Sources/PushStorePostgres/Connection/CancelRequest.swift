internal import CPostgres
internal import Foundation
internal import Synchronization

/// Asks the server to end the statement of a connection that is given up: else the statement goes on there, and keeps
/// its locks.
///
/// On a thread of its own, since libpq waits for the network meanwhile, for `connect_timeout` or, before libpq 17, for
/// `tcp_user_timeout`. Nobody waits for the thread, and nothing depends on it.
enum CancelRequest {
    /// The most cancel requests under way at once.
    private static let most = 16
    private static let underWay = Atomic(0)

    /// Sends a request, then frees it and closes its connection, since a pooler finds the statement by its connection.
    ///
    /// Where too many are under way it only frees and closes. The caller has neither pointer any more.
    static func send(_ cancel: UnsafeMutableRawPointer, thenClose connection: OpaquePointer) {
        let isTooMany = underWay.wrappingAdd(1, ordering: .relaxed).newValue > most
        // They belong to the thread alone from here on.
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
