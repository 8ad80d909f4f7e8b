internal import Foundation
internal import Logging
internal import ChaparDelivery
internal import ChaparCore
internal import Synchronization

/// The access log: every request, or those that send, as JSON lines in separate files, with caller, peer, result and
/// cost.
///
/// It is optional (`access_log`) and apart from the audit log, whose files its lines would displace. It never contains
/// keys, tokens, contents, secrets of paths, or users' ids. A line that cannot be written is dropped; no request waits
/// for it or is refused.
package final class AccessLog: Sendable {
    /// The cost of a request.
    package struct Cost {
        /// The time from the head of the request to that of the answer.
        var duration: Duration
        /// The length of the body in bytes, if the request declares it.
        var requestBytes: Int?
        /// The length of the answer's body in bytes, if it is known beforehand.
        var answerBytes: Int?

        /// Creates the cost of one request; a length that is not known beforehand is nil.
        package init(duration: Duration, requestBytes: Int? = nil, answerBytes: Int? = nil) {
            self.duration = duration
            self.requestBytes = requestBytes
            self.answerBytes = answerBytes
        }
    }

    private struct State: ~Copyable {
        var file: RotatingFile
        var leftOut = 0
    }

    private let state: Mutex<State>
    private let requests: GatewayConfiguration.AccessLog.Requests
    private let clock: WallClock
    private let logger: Logger

    init(_ settings: GatewayConfiguration.AccessLog, clock: WallClock, logger: Logger) {
        requests = settings.requests
        self.clock = clock
        self.logger = logger
        state = Mutex(
            State(file: RotatingFile(path: settings.path, maximumBytes: settings.maximumBytes, count: settings.files))
        )
    }

    /// Writes a line for a request, if its kind is logged.
    package func record(_ entry: AuditLog.Entry, _ cost: Cost) {
        guard requests == .all || SendingEndpoint(rawValue: entry.route) != nil else { return }
        let now = clock.reading.wall
        state.withLock { state in
            do throws(RotatingFile.Failure) {
                if state.leftOut > 0 {
                    let count = state.leftOut
                    try state.file.append(at: now) { writer in
                        writer.field("requests_left_out", count)
                    }
                    state.leftOut = 0
                }
                try state.file.append(at: now) { writer in
                    writer.write(entry)
                    writer.field("milliseconds", Int(clamping: (cost.duration.inSeconds * 1000).rounded()))
                    writer.field("request_bytes", cost.requestBytes)
                    writer.field("answer_bytes", cost.answerBytes)
                }
            } catch {
                if state.leftOut == 0 {
                    logger.error(
                        "the access log cannot be written: its lines are left out",
                        metadata: ["error": "\(error)"]
                    )
                }
                state.leftOut += 1
            }
        }
    }
}
