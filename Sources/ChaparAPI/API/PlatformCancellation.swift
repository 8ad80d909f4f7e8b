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
        /// How the platform is asked to take it back.
        enum Way: Hashable {
            /// The platform cancels it by its id.
            case cancel
            /// The platform asks the devices of a user, by the platform's name of the user.
            case recall(user: String)
            /// The platform asks the devices of the tokens; a full call is followed by the next part.
            case revoke(part: Int)
        }

        var backend: String
        var id: String
        var way: Way
    }

    /// The calls to make, in order, and the deliveries for which none is made.
    private struct Orders {
        /// A call, with its deliveries and tokens.
        struct Order {
            var message: Message
            var deliveries = 1
            var tokens: [DeviceToken] = []
        }

        private(set) var all: [Order] = []
        private var places: [Message: Int] = [:]
        /// The last part of each message that is taken back by tokens.
        private var parts: [Message: Int] = [:]
        var tally = Tally()

        /// Adds a delivery to the call about its message, or a call for it while there are not too many.
        mutating func add(_ message: Message) {
            if let place = places[message] {
                all[place].deliveries += 1
            } else if begin(message) == nil {
                tally.notAsked += 1
            }
        }

        /// Adds a delivery to a token to the call about its message, which has at most `limit` tokens.
        mutating func add(_ id: String, _ token: DeviceToken, at backend: String, limit: Int) {
            let whole = Message(backend: backend, id: id, way: .revoke(part: 0))
            var message = whole
            message.way = .revoke(part: parts[whole] ?? 0)
            if let place = places[message], all[place].tokens.count < limit {
                all[place].deliveries += 1
                all[place].tokens.append(token)
                return
            }
            if places[message] != nil {
                parts[whole, default: 0] += 1
                message.way = .revoke(part: parts[whole] ?? 0)
            }
            if let place = begin(message) { all[place].tokens = [token] } else { tally.notAsked += 1 }
        }

        private mutating func begin(_ message: Message) -> Int? {
            guard all.count < PlatformCancellation.maximumCalls else { return nil }
            places[message] = all.count
            all.append(Order(message: message))
            return all.count - 1
        }
    }

    /// Asks about every delivery of a notification that a platform has accepted.
    func run(_ notification: NotificationID) async throws(Problem) -> Tally {
        let backends = Dictionary(scope.gateway.backends.map { ($0.name, $0) }) { first, _ in first }
        var orders = Orders()
        var after: Int64?
        while true {
            let deliveries = try await page(of: notification, after: after)
            let asked = deliveries.filter { [.acceptedByPlatform, .delivered].contains($0.state) }
            let devices = try await devices(of: asked, backends)
            for delivery in asked { Self.add(delivery, at: backends[delivery.backend], devices, to: &orders) }
            guard deliveries.count == Self.page, let last = deliveries.last else { break }
            after = last.id
        }
        let calls = orders.all.compactMap { order in
            backends[order.message.backend].flatMap { Self.call(order, $0.backend) }
        }
        return await Self.carryOut(calls, endpoint, after: orders.tally)
    }

    private static func add(
        _ delivery: StoredDelivery,
        at backend: BackendRegistry.ConfiguredBackend?,
        _ devices: [String: Device],
        to orders: inout Orders
    ) {
        guard let backend else {
            orders.tally.unsupported += 1
            return
        }
        if let revocation = backend.backend.revocation, let (id, token) = revocable(delivery, devices),
            revocation.services.contains(token.service)
        {
            orders.add(id, token, at: backend.name, limit: max(1, revocation.revocationLimit))
            return
        }
        if delivery.state == .delivered, backend.backend.cancellation != nil {
            orders.tally.tooLate += 1
            return
        }
        guard let message = message(of: delivery, at: backend) else {
            orders.tally.unsupported += 1
            return
        }
        orders.add(message)
    }

    /// Returns the devices that deliveries went to through backends that take messages back by tokens.
    private func devices(
        of deliveries: [StoredDelivery],
        _ backends: [String: BackendRegistry.ConfiguredBackend]
    ) async throws(Problem) -> [String: Device] {
        var ids: [String] = []
        for delivery in deliveries where backends[delivery.backend]?.backend.revocation != nil {
            if case .device(let id) = delivery.recipient { ids.append(id) }
        }
        guard !ids.isEmpty else { return [:] }
        do throws(StoreError) {
            return try await endpoint.state.devices.devices(ids)
        } catch {
            throw Problem(ofDevices: error)
        }
    }

    /// Returns the tracking id of a delivery's message and the token that it went to.
    ///
    /// For a device it is the current token: if that has changed since, the platform finds no message.
    private static func revocable(
        _ delivery: StoredDelivery,
        _ devices: [String: Device]
    ) -> (id: String, token: DeviceToken)? {
        let attempts = StatusAPI.attempts(in: delivery.attemptLog)
        guard let attempt = attempts.last(where: { $0["tracking_id"] != nil }),
            attempt["backend"]?.stringValue == delivery.backend, let id = attempt["tracking_id"]?.stringValue
        else { return nil }
        switch delivery.recipient {
        case .token(let token): return (id, token)
        case .device(let device):
            guard let service = attempt["service"]?.stringValue.map(TokenService.init(rawValue:)) else { return nil }
            return devices[device]?.token(of: service).map { (id, $0.token) }
        default: return nil
        }
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
        if backend.backend.cancellation != nil { return Message(backend: backend.name, id: id, way: .cancel) }
        guard backend.backend.recall != nil, case .user(let key) = delivery.recipient else { return nil }
        return Message(backend: backend.name, id: id, way: .recall(user: backend.app.name(key)))
    }

    private static func call(_ order: Orders.Order, _ backend: any PushBackend) -> Call? {
        let message = order.message
        func call(_ body: @escaping @Sendable () async throws(PushError) -> Answer) -> Call {
            Call(backend: message.backend, deliveries: order.deliveries, body: body)
        }
        switch message.way {
        case .cancel:
            guard let cancellation = backend.cancellation else { return nil }
            return call { () throws(PushError) in
                try await cancellation.cancel(platformID: message.id) ? .cancelled : .tooLate
            }
        case .recall(let user):
            guard let recall = backend.recall else { return nil }
            return call { () throws(PushError) in
                try await recall.recall([message.id], from: user) ? .requested : .tooLate
            }
        case .revoke:
            guard let revocation = backend.revocation else { return nil }
            let tokens = order.tokens
            return call { () throws(PushError) in
                try await revocation.revoke(message.id, from: tokens) ? .requested : .tooLate
            }
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
