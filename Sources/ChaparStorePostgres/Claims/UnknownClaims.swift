internal import Logging
internal import ChaparCore
internal import Synchronization

/// Frees claims of this node that no caller was given, since the answer to their statement was lost.
///
/// It reads the whole table, in ranges of pages and on the reader's connection: no acceptance, claim or record waits
/// for it.
final class UnknownClaims: Sendable {
    /// The longest time after a lost answer in which its commit may still become visible, as when the connection was
    /// given up while the server waited for a standby.
    private static let longestDoubt = Duration.seconds(3_600)
    /// The pause before the next search when one has failed.
    private static let pause = Duration.seconds(1)

    private struct State {
        var isWanted = false
        /// The time when an answer was last lost.
        var last: ContinuousClock.Instant?
    }

    private let state = Mutex(State())
    private let signal = AsyncSignal()

    /// Records that a claim may have been committed whose answer was lost.
    func note() {
        state.withLock { $0 = State(isWanted: true, last: .now) }
        signal.signal()
    }

    /// Requests another search, within ``longestDoubt`` after an answer was lost.
    func searchAgain() {
        state.withLock { state in
            if let last = state.last, last.duration(to: .now) < Self.longestDoubt { state.isWanted = true }
        }
        signal.signal()
    }

    /// Works until the task is cancelled.
    func run(_ core: StoreCore) async {
        while !Task.isCancelled {
            let mark = signal.mark
            let isWanted = state.withLock { state in
                defer { state.isWanted = false }
                return state.isWanted
            }
            guard isWanted else {
                await signal.wait(after: mark, atMost: .seconds(3_600), SystemTime())
                continue
            }
            do throws(PostgresError) {
                try await release(core)
            } catch {
                state.withLock { $0.isWanted = true }
                core.noteFailure(error)
                // The sleep ends early when the task is cancelled; then the loop ends too.
                try? await Task.sleep(for: Self.pause)
            }
        }
    }

    private func release(_ core: StoreCore) async throws(PostgresError) {
        let (numbers, pages) = (core.ownNumbers, core.options.pagesPerScan)
        var freed = 0
        var page: Int64? = 0
        while let start = page {
            let claimed = try await core.reader.session { (db) throws(PostgresError) in
                try ClaimedPages(at: start, pages: pages, of: .nodes(numbers), db)
            }
            // A claim is in `inHand` before its connection does anything else, so each claim that was read is there
            // after this call. Those that have ended meanwhile are not there any more, nor does the statement below
            // find them.
            await core.claimer.pass()
            let unknown = core.inHand.lacking(claimed.leases)
            if !unknown.isEmpty {
                freed += try await core.reader.transaction { (db) throws(PostgresError) in
                    try claimed.free(unknown, db)
                }
            }
            page = claimed.next
        }
        guard freed > 0 else { return }
        core.stirAll()
        core.logger.notice("freed claims whose answers were lost", metadata: ["deliveries": .stringConvertible(freed)])
    }
}
