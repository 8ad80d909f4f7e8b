internal import Hummingbird
internal import NIOCore
internal import ChaparDelivery
internal import ChaparCore

/// `GET /v1/events`: every event from a number on, as server-sent events, as long as the client listens.
///
/// Numbered events come from the store, so that a client that lost its connection misses none. A slow client slows only
/// its own stream: the next events are read when it has taken the last ones. The stream ends at a graceful shutdown.
struct EventStream: Sendable {
    /// The time without an event after which the client gets a heartbeat.
    static let heartbeat = Duration.seconds(15)
    /// The interval at which the caller is checked again, since a key may expire; a change of the configuration also
    /// causes a check.
    static let authorizationInterval = Duration.seconds(30)
    /// The interval at which clients that asked for it get the state of the workers.
    private static let workersInterval = Duration.seconds(1)

    let state: GatewayState
    let filter: EventFilter
    let caller: Caller
    /// The function that checks the caller again; nil when it may not listen any more.
    let authorize: @Sendable () -> Caller?
    /// The number above which events are sent.
    let after: Int64
    /// Whether the client resumes, so that it gets an event about removed events.
    let isResumed: Bool
    /// The function that makes the unnumbered event about the workers that a caller may see; nil for clients that did
    /// not ask for this event.
    let workers: (@Sendable (Caller) async -> [UInt8])?
    var heartbeat = Self.heartbeat
    var authorizationInterval = Self.authorizationInterval
    /// The place among the open streams, which is freed with its last copy.
    let slot: StreamSlot

    /// Writes until the client leaves or the gateway stops.
    func run(_ writer: inout any ResponseBodyWriter) async throws {
        var feed = EventFeed(state, filter, after: after, isResumed: isResumed)
        var frames = SSEFrames()
        frames.retry(.seconds(2))
        var lastWrite = ContinuousClock.now
        var nextWorkers = lastWrite
        var caller = caller
        var nextAuthorization = lastWrite + authorizationInterval
        var authorizedBy = state.snapshot
        while !feed.isOver {
            if authorizedBy !== state.snapshot || ContinuousClock.now >= nextAuthorization {
                authorizedBy = state.snapshot
                nextAuthorization = .now + authorizationInterval
                guard let now = authorize() else { break }
                caller = now
            }
            if let workers, ContinuousClock.now >= nextWorkers {
                frames.event("gateway.lanes", data: await workers(caller))
                nextWorkers = .now + Self.workersInterval
            }
            if frames.isEmpty, ContinuousClock.now >= lastWrite + heartbeat { frames.heartbeat(feed.position) }
            if !frames.isEmpty {
                try await writer.write(frames.drain())
                lastWrite = .now
            }
            let wake = min(lastWrite + heartbeat, workers == nil ? .now + .seconds(5) : nextWorkers)
            for item in try await feed.next(for: caller, wait: max(.zero, ContinuousClock.now.duration(to: wake))) {
                frames.event(item.type, data: item.json, number: item.isNumbered ? item.position : nil)
            }
        }
        try await writer.finish(nil)
    }
}

/// A filter of events by type, or by the prefix of a type with `.*`; an empty filter passes all.
struct EventFilter: Sendable, Equatable {
    private let exact: Set<String>
    private let prefixes: [String]

    /// The filter that passes every event.
    static let all = EventFilter(exact: [], prefixes: [])

    private init(exact: Set<String>, prefixes: [String]) {
        self.exact = exact
        self.prefixes = prefixes
    }

    /// Reads the parameter `types`.
    init(_ text: String?) throws(Problem) {
        var exact: Set<String> = []
        var prefixes: [String] = []
        for pattern in (text ?? "").split(separator: ",") {
            if pattern.hasSuffix(".*") {
                prefixes.append(String(pattern.dropLast()))
            } else if pattern.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) {
                exact.insert(String(pattern))
            } else {
                throw .badParameter(
                    "types",
                    "must be event types with commas between, such as delivery.*,backend.parked."
                )
            }
        }
        self.exact = exact
        self.prefixes = prefixes
    }

    /// Whether the client wants events of the type.
    func matches(_ type: String) -> Bool {
        if exact.isEmpty, prefixes.isEmpty { return true }
        return exact.contains(type) || prefixes.contains { type.hasPrefix($0) }
    }
}

/// A place among the open event streams, held as long as this object lives.
final class StreamSlot: Sendable {
    private let admission: Admission
    private let caller: Caller

    init(_ admission: Admission, _ caller: Caller, limit: Int) throws(Problem) {
        try admission.openStream(caller, limit: limit)
        self.admission = admission
        self.caller = caller
    }

    deinit { admission.closeStream(caller) }
}

extension EventJSON {
    /// Returns the type of an event, which is its first member.
    static func type(of event: [UInt8]) -> String {
        let start = Array(#"{"type":""#.utf8)
        guard event.starts(with: start) else { return "message" }
        return String(decoding: event.dropFirst(start.count).prefix { $0 != UInt8(ascii: "\"") }, as: UTF8.self)
    }
}
