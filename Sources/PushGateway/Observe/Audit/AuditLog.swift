internal import Foundation
internal import Logging
internal import PushCore
internal import Synchronization

/// Who did what to what, with which result, as lines of JSON in files of their own: administration and erasure one by one, sends as
/// counts for each key and minute; and in other files refused attempts, which therefore never push the rest out.
///
/// Never in it: keys, tokens, contents, secrets of paths. While it cannot be written, administration is refused and sending
/// goes on.
final class AuditLog: Sendable {
    private struct State: ~Copyable {
        var file: RotatingFile
        var refusedFile: RotatingFile
        var refused: RefusedAttempts
        var isBroken = false
        var isRefusedBroken = false
    }

    private let state: Mutex<State>
    private let path: String
    private let clock: WallClock
    private let logger: Logger

    init(_ settings: GatewayConfiguration.Audit, clock: WallClock, logger: Logger) {
        path = settings.path
        self.clock = clock
        self.logger = logger
        func file(_ path: String) -> RotatingFile {
            RotatingFile(path: path, maximumBytes: settings.maximumBytes, count: settings.files)
        }
        state = Mutex(
            State(
                file: file(settings.path),
                refusedFile: file(settings.refusedPath),
                refused: RefusedAttempts(at: clock.reading.steady)
            )
        )
    }

    /// A request that is on record.
    struct Entry {
        var requestID: String
        var key: String
        var peer: String
        var method: String
        /// The route, its variable steps as names.
        var route: String
        /// What it is about: the first variable step, where that is no secret and no user's id.
        var target: String?
        var status: Int
        /// The code of what was wrong.
        var code: String?
    }

    /// Notes a request.
    func record(_ entry: Entry, isRefusal: Bool) {
        let now = clock.reading
        state.withLock { state in
            guard isRefusal else { return write(&state, at: now.wall) { $0.write(entry) } }
            writeSummaries(&state, at: now)
            guard state.refused.isListed(entry.peer, at: now.steady) else { return }
            writeRefused(&state, at: now.wall) { $0.write(entry) }
        }
    }

    /// Notes how many refused attempts got no line in the minutes that are over.
    func noteLeftOut() {
        let now = clock.reading
        state.withLock { writeSummaries(&$0, at: now) }
    }

    private func writeSummaries(_ state: inout State, at now: TimeReading) {
        for (peer, count) in state.refused.summaries(at: now.steady) {
            writeRefused(&state, at: now.wall) { writer in
                writer.field("peer", peer)
                writer.field("refused_attempts_left_out", count)
            }
        }
    }

    /// Notes what was sent with a key since the last time.
    func record(sends count: Int, key: String) {
        let now = clock.reading.wall
        state.withLock { state in
            write(&state, at: now) { writer in
                writer.field("key", key)
                writer.field("notifications", count)
            }
        }
    }

    /// Whether administration can be put on record; looks again after a failure.
    func isWritable() -> Bool {
        let now = clock.reading.wall
        return state.withLock { state in
            guard state.isBroken else { return true }
            write(&state, at: now) { writer in
                writer.field("note", "the audit log can be written again")
            }
            return !state.isBroken
        }
    }

    /// A line that cannot be written is lost: refused attempts must not have administration refused.
    private func writeRefused(_ state: inout State, at time: Date, _ members: (inout JSONWriter) -> Void) {
        do throws(RotatingFile.Failure) {
            try state.refusedFile.append(at: time, members)
            state.isRefusedBroken = false
        } catch {
            if !state.isRefusedBroken {
                logger.error("refused attempts cannot be put on record", metadata: ["error": "\(error)"])
            }
            state.isRefusedBroken = true
        }
    }

    private func write(_ state: inout State, at time: Date, _ members: (inout JSONWriter) -> Void) {
        do throws(RotatingFile.Failure) {
            try state.file.append(at: time, members)
            state.isBroken = false
        } catch {
            if !state.isBroken {
                logger.error(
                    "the audit log cannot be written: administration is refused",
                    metadata: ["error": "\(error)"]
                )
            }
            state.isBroken = true
        }
    }
}

extension JSONWriter {
    /// The members of a request that is on record.
    mutating func write(_ entry: AuditLog.Entry) {
        field("request_id", entry.requestID)
        field("key", entry.key)
        field("peer", entry.peer)
        field("method", entry.method)
        field("route", entry.route)
        if let target = entry.target {
            field("target", String(target.prefix(128)))
        }
        field("status", entry.status)
        guard let code = entry.code else { return }
        field("code", code)
    }
}
