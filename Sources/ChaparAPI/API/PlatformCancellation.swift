internal import Foundation
internal import ChaparDelivery
package import ChaparCore
internal import ChaparQueue

/// The cancellation of a notification's messages that platforms have accepted, with a call for each message, since many
/// recipients may share one.
///
/// The deliveries do not change: a message that was already under way may have arrived.
package struct PlatformCancellation {
    /// The most calls for one notification; deliveries beyond it count as not asked.
    private static let maximumCalls = 200
    /// The most calls under way at a time.
    private static let width = 8
    private static let page = 1_000

    let endpoint: SyncEndpoint
    let scope: RequestScope

    init(endpoint: SyncEndpoint, _ scope: RequestScope) {
        self.endpoint = endpoint
        self.scope = scope
    }

    /// The answer of a platform.
    enum Answer: Sendable {
        case cancelled
        /// The platform asked devices to remove the message.
        case requested
        case tooLate
    }

    /// One call, with the number of deliveries that it is about.
    struct Call: Sendable {
        var backend: String
        var deliveries: Int
        var body: @Sendable () async throws(PushError) -> Answer
    }

    /// The numbers of deliveries by their results.
    package struct Tally: Sendable {
        /// The most errors that are listed.
        private static let shown = 10

        package fileprivate(set) var cancelled = 0
        package fileprivate(set) var requested = 0
        package fileprivate(set) var tooLate = 0
        package fileprivate(set) var failed = 0
        package fileprivate(set) var unsupported = 0
        package fileprivate(set) var notAsked = 0
        package private(set) var errors: [(backend: String, error: PushError)] = []

        mutating func add(_ result: Result<Answer, PushError>, of call: Call) {
            switch result {
            case .success(.cancelled): cancelled += call.deliveries
            case .success(.requested): requested += call.deliveries
            case .success(.tooLate): tooLate += call.deliveries
            case .failure(let error):
                failed += call.deliveries
                if errors.count < Self.shown { errors.append((call.backend, error)) }
            }
        }

        func write(to writer: inout JSONWriter) {
            writer.beginObject()
            let counts = [
                ("cancelled", cancelled), ("requested", requested), ("too_late", tooLate), ("failed", failed),
                ("unsupported", unsupported), ("not_asked", notAsked),
            ]
            for (name, count) in counts {
                writer.name(name)
                writer.integer(count)
            }
            writer.name("errors")
            writer.beginArray()
            for (backend, error) in errors {
                writer.beginObject()
                writer.field("backend", backend)
                writer.name("error")
                writer.pushError(error)
                writer.endObject()
            }
            writer.endArray()
            writer.endObject()
        }
    }

    /// A message in the platform's terms.
    private struct Message: Hashable {
        var backend: String
        var id: String
        /// The user whose devices are asked, by the platform's name of the user; nil where the platform itself cancels.
        var user: String?
    }

    /// Asks about every delivery of a notification that a platform has accepted.
    func run(_ notification: NotificationID) async throws(Problem) -> Tally {
        let backends = Dictionary(scope.gateway.backends.map { ($0.name, $0) }) { first, _ in first }
        var counts: [Message: Int] = [:]
        var order: [Message] = []
        var tally = Tally()
        var after: Int64?
        while true {
            let deliveries = try await page(of: notification, after: after)
            for delivery in deliveries where [.acceptedByPlatform, .delivered].contains(delivery.state) {
                if delivery.state == .delivered, backends[delivery.backend]?.backend.cancellation != nil {
                    tally.tooLate += 1
                    continue
                }
                guard let backend = backends[delivery.backend],
                    let message = Self.message(of: delivery, at: backend)
                else {
                    tally.unsupported += 1
                    continue
                }
                if let count = counts[message] {
                    counts[message] = count + 1
                } else if order.count < Self.maximumCalls {
                    order.append(message)
                    counts[message] = 1
                } else {
                    tally.notAsked += 1
                }
            }
            guard deliveries.count == Self.page, let last = deliveries.last else { break }
            after = last.id
        }
        let calls = order.compactMap { message in
            backends[message.backend].flatMap { Self.call(message, counts[message] ?? 0, $0.backend) }
        }
        return await Self.carryOut(calls, endpoint, after: tally)
    }

    private func page(of id: NotificationID, after: Int64?) async throws(Problem) -> [StoredDelivery] {
        do throws(StoreError) {
            return try await endpoint.state.store.deliveries(of: id, after: after, limit: Self.page)
        } catch {
            throw Problem(error)
        }
    }

    private static func message(
        of delivery: StoredDelivery,
        at backend: BackendRegistry.ConfiguredBackend
    ) -> Message? {
        guard let id = StatusAPI.platformID(in: delivery.attemptLog) else { return nil }
        if backend.backend.cancellation != nil { return Message(backend: backend.name, id: id) }
        guard backend.backend.recall != nil, case .user(let key) = delivery.recipient else { return nil }
        return Message(backend: backend.name, id: id, user: backend.app.name(key))
    }

    private static func call(_ message: Message, _ deliveries: Int, _ backend: any PushBackend) -> Call? {
        if let user = message.user, let recall = backend.recall {
            return Call(backend: message.backend, deliveries: deliveries) { () throws(PushError) in
                try await recall.recall([message.id], from: user) ? .requested : .tooLate
            }
        }
        guard let cancellation = backend.cancellation else { return nil }
        return Call(backend: message.backend, deliveries: deliveries) { () throws(PushError) in
            try await cancellation.cancel(platformID: message.id) ? .cancelled : .tooLate
        }
    }

    /// Makes calls, a few at a time; none begins after the deadline of one call, and the others count as not asked.
    static func carryOut(_ calls: [Call], _ endpoint: SyncEndpoint, after begun: Tally = Tally()) async -> Tally {
        let end = endpoint.state.time.steady.addingTimeInterval(SyncEndpoint.deadline.inSeconds)
        return await withTaskGroup(of: (Call, Result<Answer, PushError>).self) { group in
            var tally = begun
            for (number, call) in calls.enumerated() {
                if number >= width, let (call, result) = await group.next() { tally.add(result, of: call) }
                guard endpoint.state.time.steady < end else {
                    tally.notAsked += call.deliveries
                    continue
                }
                group.addTask {
                    do throws(PushError) {
                        return (call, .success(try await endpoint.answer(of: call.body)))
                    } catch {
                        return (call, .failure(error))
                    }
                }
            }
            for await (call, result) in group { tally.add(result, of: call) }
            return tally
        }
    }
}
