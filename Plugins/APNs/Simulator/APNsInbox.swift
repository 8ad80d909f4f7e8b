public import Foundation
public import ChaparCore
internal import ChaparSimulator

/// A push that the simulator accepted.
///
/// It is kept in the simulator's inbox in the order of acceptance, for tests and for `chapar sandbox`. A refused push
/// is counted, but never kept here.
public struct APNsDelivery: Sendable {
    /// The state of a push on its device.
    @nonexhaustive
    public enum Presentation: String, Sendable, Hashable {
        /// It reached the device.
        case shown
        /// It reached the device, and a later one with the same collapse id took its place.
        case replaced
        /// The device is offline: the push waits, at most one for each app.
        case stored
        /// It never reached the device: it must not be stored, or a later one replaced it in the store.
        case discarded
    }

    /// Its number in the order of acceptance, from 0; the cursor of the inbox.
    public let number: Int
    /// The environment.
    public let environment: APNsEnvironment
    /// The `apns-id` of the answer.
    public let apnsID: String
    /// The device token in lower case; empty for a broadcast.
    public let token: String
    /// The topic.
    public let topic: String
    /// All header fields except the authorization.
    public let headers: [HTTPHeader]
    /// The payload as it was sent.
    public let payload: [UInt8]
    /// When it was accepted, by the simulator's clock.
    public let acceptedAt: Date
    /// The number of its connection.
    public let connection: Int
    /// The number of its stream.
    public let stream: Int32
    /// Whether the same `apns-id` had been accepted before.
    public let isDuplicateID: Bool
    /// Whether the same payload had been accepted for the same device before.
    public let isDuplicateContent: Bool
    /// The state of the push on its device.
    public internal(set) var presentation: Presentation

    /// Returns the value of a header field; nil when it is absent.
    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

/// The accepted pushes, the newest up to a limit, with the state of each on its device.
struct APNsInbox: Sendable {
    /// An accepted push on its way into the inbox.
    struct Arrival {
        var environment: APNsEnvironment
        var apnsID: String
        var push: APNsPush
        var request: APNsRequest
        var connection: Int
        var stream: Int32
        var isOnline: Bool
        var isBroadcast = false
    }

    /// Whether an arrival repeats an id or a content, and whether it replaced an earlier push.
    struct Findings {
        var isDuplicateID = false
        var isDuplicateContent = false
        var hasCollapsed = false
    }

    private struct Place: Hashable, Sendable {
        let token: String
        let key: String
    }

    let limit: Int
    /// The pushes kept; a quarter of the limit is dropped at a time, oldest first.
    private(set) var deliveries: [APNsDelivery] = []
    private(set) var total = 0
    private var seenIDs = BoundedSet<UInt128>(limit: 500_000)
    private var seenContents = BoundedSet<Int>(limit: 500_000)
    private var newestByCollapseID: [Place: Int] = [:]
    private var storedByApp: [Place: Int] = [:]

    init(limit: Int) { self.limit = limit }

    mutating func add(_ arrival: Arrival, at now: Date) -> Findings {
        var findings = Findings()
        let request = arrival.request
        let number = total
        total += 1
        if let id = UUIDText.parse(arrival.apnsID) { findings.isDuplicateID = !seenIDs.insert(id) }
        var hasher = Hasher()
        hasher.combine(arrival.push.token)
        hasher.combine(request.channelID)
        request.body.withUnsafeBytes { hasher.combine(bytes: $0) }
        findings.isDuplicateContent = !seenContents.insert(hasher.finalize())
        if let collapseID = request.collapseID, !arrival.isBroadcast {
            forgetPlacesIfMany()
            let place = Place(token: arrival.push.token, key: collapseID)
            if let earlier = newestByCollapseID.updateValue(number, forKey: place) {
                findings.hasCollapsed = true
                present(earlier, as: .replaced)
            }
        }
        guard limit > 0 else { return findings }
        if deliveries.count >= limit { deliveries.removeFirst(max(1, limit / 4)) }
        deliveries.append(
            APNsDelivery(
                number: number,
                environment: arrival.environment,
                apnsID: arrival.apnsID,
                token: arrival.push.token,
                topic: arrival.push.topic,
                headers: request.headers.filter { $0.name != "authorization" },
                payload: request.body,
                acceptedAt: now,
                connection: arrival.connection,
                stream: arrival.stream,
                isDuplicateID: findings.isDuplicateID,
                isDuplicateContent: findings.isDuplicateContent,
                presentation: .shown
            )
        )
        if !arrival.isOnline { store(number, arrival) }
        return findings
    }

    /// Shows the pushes that were stored for a device, which is online again.
    mutating func deliverStored(to token: String) {
        for (place, number) in storedByApp where place.token == token {
            present(number, as: .shown)
            storedByApp[place] = nil
        }
    }

    /// Returns at most `limit` pushes from number `first` on.
    func page(from first: Int, limit: Int) -> ArraySlice<APNsDelivery> {
        let start = min(max(0, first - (deliveries.first?.number ?? 0)), deliveries.count)
        return deliveries[start..<min(deliveries.count, start + max(0, limit))]
    }

    private mutating func store(_ number: Int, _ arrival: Arrival) {
        if arrival.request.expiration.flatMap({ Int64($0) }) == 0 { return present(number, as: .discarded) }
        let place = Place(token: arrival.push.token, key: APNsPushType.bundleID(of: arrival.push.topic))
        if let earlier = storedByApp.updateValue(number, forKey: place) { present(earlier, as: .discarded) }
        present(number, as: .stored)
    }

    private mutating func present(_ number: Int, as presentation: APNsDelivery.Presentation) {
        let index = number - (deliveries.first?.number ?? 0)
        guard deliveries.indices.contains(index) else { return }
        // Only a push that reached the device can be replaced there.
        if presentation == .replaced, deliveries[index].presentation != .shown { return }
        deliveries[index].presentation = presentation
    }

    private mutating func forgetPlacesIfMany() {
        if newestByCollapseID.count > 500_000 { newestByCollapseID.removeAll() }
    }
}
