package import ChaparDelivery
internal import ChaparCore

/// The process's file descriptors and their shares: callers must not take those that platforms and files need.
enum FileDescriptors {
    /// The least number of descriptors kept for platforms, the store, logs and the program itself, which get a quarter.
    private static let leastReserve = 256

    /// The process's limit; `.max` when there is none.
    static var limit: Int {
        CLibrary.Limit.openFiles.values.map { Int(clamping: $0.now) } ?? .max
    }

    /// Returns the number of connections to accept, of those wanted, under a limit of descriptors.
    static func connections(wanted: Int, limit: Int) -> Int {
        guard limit < .max else { return wanted }
        return max(16, min(wanted, limit - max(leastReserve, limit / 4)))
    }
}

extension GatewayConfiguration.Server {
    /// The most connections at a time: one for every request and every event stream, as far as descriptors allow.
    package var maximumConnections: Int {
        FileDescriptors.connections(
            wanted: maximumRequests + Admission.maximumStreams,
            limit: FileDescriptors.limit
        )
    }
}
