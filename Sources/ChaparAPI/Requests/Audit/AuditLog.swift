internal import Foundation
internal import Logging
internal import ChaparDelivery
internal import ChaparCore
internal import Synchronization

/// The record of requests as JSON lines in separate files: the key, the route, the target and the result.
///
/// Each request of administration or erasure gets a line; sends are counted for each key and minute. Refused attempts
/// are in other files, so they never displace these lines.
///
/// It never contains keys, tokens, contents, or secrets of paths. While it cannot be written, administration is refused
/// and sending goes on.
package final class AuditLog: Sendable {
    private struct State: ~Copyable {
        var record: AuditFile
        /// The file of refused attempts; if it cannot be written, administration must not be refused.
        var refusedRecord: AuditFile
        var refused: RefusedAttempts
    }

    private let state: Mutex<State>
    private let clock: WallClock
    private let logger: Logger

    init(_ settings: GatewayConfiguration.Audit, clock: WallClock, logger: Logger) {
        self.clock = clock
        self.logger = logger
        func file(_ path: String, _ complain: @escaping AuditFile.Complaint) -> AuditFile {
            AuditFile(
                file: RotatingFile(path: path, maximumBytes: settings.maximumBytes, count: settings.files),
                complain: complain
            )
        }
        state = Mutex(
            State(
                record: file(settings.path) { logger, error in
                    logger.error(
                        "the audit log cannot be written: administration is refused",
                        metadata: ["error": "\(error)"]
                    )
                },
                refusedRecord: file(settings.refusedPath) { logger, error in
                    logger.error("refused attempts cannot be written to the audit log", metadata: ["error": "\(error)"])
                },
                refused: RefusedAttempts(at: clock.reading.steady)
            )
        )
    }

    /// A request to be recorded.
    package struct Entry {
        var requestID: String
        var key: String
        var peer: String
        var method: String
        /// The route, with its variable steps as names.
        var route: String
        /// The subject of the request: the first variable step, if that is neither a secret nor a user's id.
        package var target: String?
        var status: Int
        /// The code of the problem.
        var code: String?
        /// The trace that the request names; for the access log.
        package var traceID: String?

        /// Creates the entry of a request; `code` is nil for one that succeeded.
        package init(
            requestID: String,
            key: String,
            peer: String,
            method: String,
            route: String,
            target: String? = nil,
            status: Int,
            code: String? = nil
        ) {
            self.requestID = requestID
            self.key = key
            self.peer = peer
            self.method = method
            self.route = route
            self.target = target
            self.status = status
            self.code = code
        }
    }

    /// Records a request.
    package func record(_ entry: Entry, isRefusal: Bool) {
        let now = clock.reading
        state.withLock { state in
            guard isRefusal else { return state.record.write(at: now.wall, logger) { $0.write(entry) } }
            writeSummaries(&state, at: now)
            guard state.refused.isListed(entry.peer, at: now.steady) else { return }
            state.refusedRecord.write(at: now.wall, logger) { $0.write(entry) }
        }
    }

    /// Records the number of refused attempts without a line in the minutes that are over.
    func noteLeftOut() {
        let now = clock.reading
        state.withLock { writeSummaries(&$0, at: now) }
    }

    private func writeSummaries(_ state: inout State, at now: TimeReading) {
        for (peer, count) in state.refused.summaries(at: now.steady) {
            state.refusedRecord.write(at: now.wall, logger) { writer in
                writer.field("peer", peer)
                writer.field("refused_attempts_left_out", count)
            }
        }
    }

    /// Records the number of notifications sent with a key since the last time.
    func record(sends count: Int, key: String) {
        let now = clock.reading.wall
        state.withLock { state in
            state.record.write(at: now, logger) { writer in
                writer.field("key", key)
                writer.field("notifications", count)
            }
        }
    }

    /// Whether administration can be recorded; tries again after a failure.
    package func isWritable() -> Bool {
        let now = clock.reading.wall
        return state.withLock { state in
            guard state.record.isBroken else { return true }
            state.record.write(at: now, logger) { writer in
                writer.field("note", "the audit log can be written again")
            }
            return !state.record.isBroken
        }
    }
}

/// A file of the audit log, whose failure is logged once until a line can be written again.
private struct AuditFile: ~Copyable {
    /// A function that logs that a line cannot be written.
    typealias Complaint = @Sendable (Logger, RotatingFile.Failure) -> Void

    var file: RotatingFile
    let complain: Complaint
    /// Whether the last line could not be written.
    private(set) var isBroken = false

    init(file: consuming RotatingFile, complain: @escaping Complaint) {
        self.file = file
        self.complain = complain
    }

    /// Appends a line; one that cannot be written is lost.
    mutating func write(at time: Date, _ logger: Logger, _ members: (inout JSONWriter) -> Void) {
        do throws(RotatingFile.Failure) {
            try file.append(at: time, members)
            isBroken = false
        } catch {
            if !isBroken { complain(logger, error) }
            isBroken = true
        }
    }
}

extension JSONWriter {
    /// Writes the members of a recorded request.
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
        field("code", entry.code)
        field("trace_id", entry.traceID)
    }
}
