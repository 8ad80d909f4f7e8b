internal import NIOCore
internal import Synchronization

/// The live connections of a listener, reachable from any thread.
final class ConnectionTable: Sendable {
    /// A connection together with the loop that it belongs to.
    struct Entry: Sendable {
        let connection: NIOLoopBound<any SandboxLiveConnection>
        let channel: any Channel

        func execute(_ work: @escaping @Sendable (any SandboxLiveConnection) -> Void) {
            channel.eventLoop.execute { work(connection.value) }
        }
    }

    private let entries = Mutex<[Int: Entry]>([:])

    func add(_ number: Int, _ connection: any SandboxLiveConnection, _ channel: any Channel) {
        let entry = Entry(connection: NIOLoopBound(connection, eventLoop: channel.eventLoop), channel: channel)
        entries.withLock { $0[number] = entry }
    }

    func remove(_ number: Int) {
        entries.withLock { _ = $0.removeValue(forKey: number) }
    }

    func forEach(_ body: (Int, Entry) -> Void) {
        for (number, entry) in entries.withLock({ $0 }) { body(number, entry) }
    }

    func closeAll() async {
        for entry in entries.withLock({ Array($0.values) }) {
            // A reset rather than a TLS goodbye: a client that does not read must not delay the shutdown.
            entry.execute { $0.abort() }
            try? await entry.channel.closeFuture.get()
        }
    }
}
