internal import PushCore

/// How many file descriptors the process may have, and how they are shared: whoever calls must not take those with
/// which platforms are reached and files written.
enum FileDescriptors {
    /// Kept for platforms, the store, logs and the program itself: a quarter, and at least so many.
    private static let leastReserve = 256

    /// The process's limit; `.max` when there is none.
    static var limit: Int {
        CLibrary.Limit.openFiles.values.map { Int(clamping: $0.now) } ?? .max
    }

    /// The most connections that are taken, of those that are wanted, under a limit.
    static func connections(wanted: Int, limit: Int) -> Int {
        guard limit < .max else { return wanted }
        return max(16, min(wanted, limit - max(leastReserve, limit / 4)))
    }
}

extension GatewayConfiguration.Server {
    /// The most connections that are taken at a time: for every request and every event stream one, as far as
    /// descriptors go.
    var maximumConnections: Int {
        FileDescriptors.connections(
            wanted: maximumRequests + Admission.maximumStreams,
            limit: FileDescriptors.limit
        )
    }
}
